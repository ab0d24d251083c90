"""`tensorflow.examples.tutorials.mnist.input_data` for scripts on the real TensorFlow.

TensorFlow 2 has no tutorials any more. Where a script imports them it gets ours, which need NumPy
alone; a TensorFlow that still has them keeps its own.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_DATA = "tensorflow.examples.tutorials.mnist.input_data"
_OURS = "stepscope.programs.mnist"


def provide() -> None:
    """Have this process find them from now on, after everything else that could."""
    sys.meta_path.append(_Finder())


class _Finder(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname == _DATA:
            return ModuleSpec(fullname, _Loader(_OURS))
        if fullname != "tensorflow" and _DATA.startswith(f"{fullname}."):
            return ModuleSpec(fullname, _Loader(None), is_package=True)
        return None


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
        elif module.__name__ == "tensorflow.examples":
            # `import tensorflow.examples.x as y` looks for it in what `import tensorflow` gives.
            sys.modules["tensorflow"].compat.v1.examples = module
