"""Modules of TensorFlow 1 that scripts import and TensorFlow 2 has no more.

The data of `tensorflow.examples.tutorials.mnist`, which need NumPy alone, and `tf.contrib.tfprof`,
which is TensorFlow's own profiler. Where a script asks for them it gets ours; a TensorFlow that
still has them keeps its own.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT: Final = "tensorflow"
_CONTRIB: Final = f"{_ROOT}.contrib"
_TFPROF: Final = f"{_CONTRIB}.tfprof"
_BEHIND: Final = {
    f"{_ROOT}.examples.tutorials.mnist.input_data": "stepscope.programs.mnist",
    _TFPROF: "stepscope.adapters.tensorflow.tfprof",
    f"{_TFPROF}.model_analyzer": "stepscope.adapters.tensorflow.tfprof.model_analyzer",
    f"{_TFPROF}.tfprof_logger": "stepscope.adapters.tensorflow.tfprof.tfprof_logger",
}


def provide() -> None:
    """Have this process find them from now on, after everything else that could.

    TensorFlow is there. `tf.contrib` is an attribute that nobody imports, so it is set now; what
    lies behind it is loaded when it is asked for.
    """
    sys.meta_path.append(_Finder())
    if not hasattr(sys.modules[_ROOT].compat.v1, "contrib"):
        import_module(_CONTRIB)


class _Finder(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        package = fullname != _ROOT and any(name.startswith(f"{fullname}.") for name in _BEHIND)
        behind = _BEHIND.get(fullname)
        if not package and behind is None:
            return None
        return ModuleSpec(fullname, _Loader(behind), is_package=package)


class _Loader(Loader):
    """Loads a package with nothing in it, or what the module behind has."""

    def __init__(self, behind: str | None) -> None:
        self._behind = behind

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:  # noqa: ARG002
        return None

    def exec_module(self, module: ModuleType) -> None:
        if self._behind is not None:
            found = vars(import_module(self._behind))
            module.__dict__.update({n: v for n, v in found.items() if not n.startswith("_")})
            return
        package, _, name = module.__name__.rpartition(".")
        if package == _ROOT:
            # `import tensorflow.examples.x as y` looks for it in what `import tensorflow` gives.
            setattr(sys.modules[_ROOT].compat.v1, name, module)
        if module.__name__ == _CONTRIB:
            module.__dict__["__getattr__"] = _of_contrib


def _of_contrib(name: str) -> Any:
    if f"{_CONTRIB}.{name}" in _BEHIND:
        return import_module(f"{_CONTRIB}.{name}")
    raise AttributeError(
        f"module {_CONTRIB!r} has no attribute {name!r}: TensorFlow 2 has no contrib, and of it "
        "Stepscope provides tfprof alone; without TensorFlow, `stepscope run --engine embedded` "
        "has more of it",
        name=name,
    )
