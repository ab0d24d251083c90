"""Nodes of a graph: `Operation` and its output `Tensor`s."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from traceback import FrameSummary
from types import CodeType
from typing import TYPE_CHECKING, Any, NoReturn

from stepscope.graph.defaults import get_default_session
from stepscope.graph.dtypes import DType
from stepscope.graph.shapes import TensorShape, as_shape
from stepscope.own_code import is_ours

if TYPE_CHECKING:
    from stepscope.graph.graph import Graph
    from stepscope.graph.registry import OpType

_MAX_FRAMES = 64
_MOST_PLACES = 3


def _user_stack() -> tuple[tuple[CodeType, int], ...]:
    """The calling stack, innermost first, without the frames of this package.

    It ends with the program's main module: what is outside started the program.
    """
    frame = sys._getframe(2)
    stack: list[tuple[CodeType, int]] = []
    current: Any = frame
    while current is not None and len(stack) < _MAX_FRAMES:
        code = current.f_code
        if not is_ours(current):
            # Code may have no line numbers, or none for what runs at its very beginning.
            stack.append((code, current.f_lineno or code.co_firstlineno))
            if code.co_name == "<module>" and current.f_globals.get("__name__") == "__main__":
                break
        current = current.f_back
    return tuple(stack)


def places(tensors: Sequence[Tensor]) -> str:
    """For a message: the line of the user's code that runs now, and those that made the tensors."""
    stack = _user_stack()
    here = f"{stack[0][0].co_filename}:{stack[0][1]}" if stack else "a place not known"
    elsewhere = [t for t in tensors if t.op.source not in ("", here)]
    made = {f"{t.name} was made at {t.op.source}": None for t in elsewhere}
    return f"At {here}" + "".join(f"; {text}" for text in list(made)[:_MOST_PLACES]) + "."


class Operation:
    """One node: an op type applied to tensors. Made by `Graph.create_op`, never directly.

    Immutable but for its device, its control inputs, attributes set through `_set_attr` and the
    inputs that a conditional or a loop replaces, while the graph is still being built.
    """

    __slots__ = (
        "__weakref__", "_attrs", "_constant", "_context", "_control_inputs", "_device", "_graph",
        "_id", "_inputs", "_name", "_outputs", "_stack", "_type",
    )  # fmt: skip

    def __init__(
        self,
        graph: Graph,
        op_id: int,
        name: str,
        op_type: OpType,
        inputs: Sequence[Tensor],
        control_inputs: Sequence[Operation],
        attrs: Mapping[str, Any],
        device: str,
        output_dtypes: Sequence[DType],
        output_shapes: Sequence[TensorShape],
    ) -> None:
        self._graph = graph
        self._id = op_id
        self._name = name
        self._type = op_type
        self._inputs = tuple(inputs)
        self._control_inputs = list(control_inputs)
        self._attrs = dict(attrs)
        self._device = device
        self._constant: Any = None
        self._context: Any = None
        """The conditional's branch or the loop that the op is part of."""
        self._stack = _user_stack()
        self._outputs = tuple(
            Tensor(self, i, dtype, shape)
            for i, (dtype, shape) in enumerate(zip(output_dtypes, output_shapes, strict=True))
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def type(self) -> str:
        return self._type.name

    @property
    def op_type(self) -> OpType:
        return self._type

    @property
    def graph(self) -> Graph:
        return self._graph

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self._inputs

    @property
    def control_inputs(self) -> list[Operation]:
        return list(self._control_inputs)

    @property
    def outputs(self) -> list[Tensor]:
        return list(self._outputs)

    @property
    def device(self) -> str:
        """The device that was asked for; "" where the program left it open."""
        return self._device

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self._attrs

    def values(self) -> tuple[Tensor, ...]:
        return self._outputs

    def get_attr(self, name: str) -> Any:
        """The attribute's value; ValueError that lists the op's attributes if there is none."""
        try:
            return self._attrs[name]
        except KeyError:
            known = ", ".join(sorted(self._attrs)) or "none"
            raise ValueError(
                f"Operation {self._name!r} has no attr named {name!r}; it has: {known}."
            ) from None

    def colocation_groups(self) -> list[bytes]:
        groups: list[bytes] = self._attrs.get("_class") or [b"loc:@" + self._name.encode()]
        return list(groups)

    @property
    def source(self) -> str:
        """`file:line` of the user's code that made this op; "" if none is known."""
        if not self._stack:
            return ""
        code, line = self._stack[0]
        return f"{code.co_filename}:{line}"

    @property
    def traceback(self) -> list[FrameSummary]:
        """The user's stack when the op was made, outermost first."""
        return [
            FrameSummary(code.co_filename, line, code.co_name, lookup_line=False)
            for code, line in reversed(self._stack)
        ]

    @property
    def node_def(self) -> Any:
        from stepscope.graph.graph_def import node_def_of

        return node_def_of(self)

    def run(self, feed_dict: Mapping[Any, Any] | None = None, session: Any = None) -> None:
        """Run this op in the given or the default session."""
        session_for(self._name, "run()", session).run(self, feed_dict)

    def _set_device(self, device: str) -> None:
        self._device = device
        self._graph._note_change()

    def _set_attr(self, name: str, value: Any) -> None:
        self._attrs[name] = value
        self._graph._note_change()

    def _add_control_inputs(self, ops: Sequence[Operation]) -> None:
        self._control_inputs.extend(op for op in ops if op not in self._control_inputs)
        self._graph._note_change()

    def _set_inputs(self, inputs: Sequence[Tensor]) -> None:
        """For an op that nobody else can have seen yet: a conditional or a loop is being built."""
        self._inputs = tuple(inputs)

    def _set_control_inputs(self, ops: Sequence[Operation]) -> None:
        """As `_set_inputs`."""
        self._control_inputs = list(dict.fromkeys(ops))

    def _add_control_input(self, op: Operation) -> None:
        self._add_control_inputs([op])

    def __repr__(self) -> str:
        return f"<stepscope.Operation {self._name!r} type={self.type}>"

    def __str__(self) -> str:
        return str(self.node_def)


def session_for(name: str, method: str, session: Any) -> Any:
    """The session that was passed to `method`, or the default one."""
    session = session if session is not None else get_default_session()
    if session is None:
        raise ValueError(
            f"Cannot execute {name!r} with `{method}`: no default session is registered. "
            "Use `with sess.as_default()` or pass an explicit session."
        )
    return session


class Tensor:
    """One output of an operation: a promise of an array, with a dtype and a static shape."""

    __slots__ = ("__weakref__", "_dtype", "_keras_mask", "_op", "_shape", "_value_index")
    __array_priority__ = 100

    def __init__(self, op: Operation, value_index: int, dtype: DType, shape: TensorShape) -> None:
        self._op = op
        self._value_index = value_index
        self._dtype = dtype
        self._shape = shape

    @property
    def op(self) -> Operation:
        return self._op

    @property
    def value_index(self) -> int:
        return self._value_index

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def name(self) -> str:
        return f"{self._op.name}:{self._value_index}"

    @property
    def graph(self) -> Graph:
        return self._op.graph

    @property
    def device(self) -> str:
        return self._op.device

    @property
    def shape(self) -> TensorShape:
        return self._shape

    def get_shape(self) -> TensorShape:
        return self._shape

    def set_shape(self, shape: Any) -> None:
        """Add what is known about the shape; ValueError if it contradicts what is known."""
        self._shape = self._shape.merge_with(as_shape(shape))
        self.graph._note_change()

    def consumers(self) -> list[Operation]:
        return [op for op in self.graph.get_operations() if self in op.inputs]

    def eval(self, feed_dict: Mapping[Any, Any] | None = None, session: Any = None) -> Any:
        """The value, from the given or the default session."""
        return session_for(self.name, "eval()", session).run(self, feed_dict)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"{self.name} is a symbolic tensor and has no truth value. "
            "Use `if t is not None:` to test for a tensor; run it in a session for its value."
        )

    def __iter__(self) -> Iterator[Tensor]:
        length = self._shape.axes[0] if self._shape.axes else None
        if length is None:
            raise TypeError(
                f"{self.name} has shape {self._shape}; only tensors with a known first "
                "dimension can be iterated over."
            )
        return (self[i] for i in range(length))

    def __len__(self) -> NoReturn:
        raise TypeError(
            f"len is not defined for the symbolic tensor {self.name}; "
            "use `t.shape` or `tf.shape(t)` for its shape."
        )

    def __array__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"Cannot convert the symbolic tensor {self.name} to a NumPy array; "
            "run it in a session: `sess.run(t)`."
        )

    if TYPE_CHECKING:
        # `ops` gives tensors their operators (`define_operator`).
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...

    def __getitem__(self, key: Any) -> Tensor:
        return operator_named("__getitem__")(self, key)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<stepscope.Tensor {self.name!r} shape={self._shape} dtype={self._dtype.name}>"

    def __str__(self) -> str:
        return f'Tensor("{self.name}", shape={self._shape}, dtype={self._dtype.name})'


_OPERATORS: dict[str, Callable[..., Any]] = {}


def operator_named(name: str) -> Callable[..., Any]:
    """What an operator of tensors does, by its method: `operator_named("__add__")`."""
    try:
        return _OPERATORS[name]
    except KeyError:
        raise TypeError(f"Tensors have no operator {name}.") from None


def define_operator(name: str, function: Callable[..., Any]) -> None:
    """Make `function` what `Tensor.<name>` does (`__add__`, `__getitem__`, ...)."""
    _OPERATORS[name] = function
    if name != "__getitem__":
        setattr(Tensor, name, lambda self, *args: _OPERATORS[name](self, *args))
