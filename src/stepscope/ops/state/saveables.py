"""What a checkpoint holds besides variables: objects that say which tensors they are saved as."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepscope.graph.dtypes import DType
from stepscope.graph.operation import Tensor

__all__ = ["SaveSpec", "SaveableObject"]


class SaveSpec:
    """One tensor of a `SaveableObject`, and its name in checkpoints.

    `tensor` may be a function that makes it; then `dtype` and `device` are needed.
    """

    def __init__(
        self,
        tensor: Tensor | Callable[[], Tensor],
        slice_spec: str,
        name: str,
        dtype: DType | None = None,
        device: str | None = None,
    ) -> None:
        self._tensor = tensor
        self.slice_spec, self.name = slice_spec, name
        self.dtype: Any = dtype
        self.device: Any = device
        if isinstance(tensor, Tensor):
            self.dtype = tensor.dtype
            self.device = tensor.device if device is None else device
        elif dtype is None or device is None:
            raise AssertionError(
                "When passing a callable `tensor` to a SaveSpec, an explicit dtype and device "
                "must be provided."
            )

    @property
    def tensor(self) -> Tensor:
        return self._tensor if isinstance(self._tensor, Tensor) else self._tensor()


class SaveableObject:
    """Something that is saved as tensors and restored from them; subclasses have `restore`.

    `op` is the object that is saved. A saver that is not told
    what to save saves those in `tf.GraphKeys.SAVEABLE_OBJECTS` with the variables.
    """

    def __init__(self, op: Any, specs: Sequence[SaveSpec], name: str) -> None:
        self.op = op
        self.specs = list(specs)
        self.name = name

    @property
    def device(self) -> str:
        """The device of its tensors."""
        device: str = self.specs[0].device
        return device

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        """The op that puts saved tensors back."""
        raise NotImplementedError(f"{type(self).__name__} has no restore().")
