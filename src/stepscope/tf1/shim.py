"""Makes `import tensorflow` give Stepscope's embedded engine, in this process.

Guarantees while installed:

- `tensorflow` and everything below it is ours, even where the real TensorFlow is installed or was
  already imported: nothing of it is loaded, and no import falls through to it;
- `tensorflow.x.y` is what `stepscope.tf1.x.y` is; `tensorflow.compat.v1` is `tensorflow` itself;
- what we do not have is a `ModuleNotFoundError` that names it and lists what is close.

`uninstall` puts back what `sys.modules` had before. Modules that imported `tensorflow` meanwhile
keep what they got.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stepscope.tf1._absent import ROOT, public_name, what_to_do

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NAME = "tensorflow"
_OURS_ALONE = frozenset({"shim"})
_lock = RLock()
_installed: _Shim | None = None


def install() -> None:
    """Put the embedded engine in TensorFlow's place. A second call changes nothing."""
    global _installed
    with _lock:
        if _installed is None:
            _installed = _Shim()


def uninstall() -> None:
    """Undo `install`: the real TensorFlow, if there is one, can be imported again."""
    global _installed
    with _lock:
        if _installed is not None:
            _installed.remove()
            _installed = None


@contextmanager
def installed() -> Iterator[None]:
    """The embedded engine in TensorFlow's place for the length of a `with` block."""
    was_there = _installed is not None
    install()
    try:
        yield
    finally:
        if not was_there:
            uninstall()


class _Shim:
    """One installation: the finder, and the modules that were there before."""

    def __init__(self) -> None:
        self._before = _take_out()
        self._finder = _Finder()
        sys.meta_path.insert(0, self._finder)

    def remove(self) -> None:
        sys.meta_path.remove(self._finder)
        _take_out()
        sys.modules.update(self._before)


def _take_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name == _NAME or name.startswith(f"{_NAME}.")]
    return {name: sys.modules.pop(name) for name in names}


class _Finder(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != _NAME and not fullname.startswith(f"{_NAME}."):
            return None
        behind = ROOT + fullname.removeprefix(_NAME)
        parent, _, child = behind.rpartition(".")
        found = None
        if child not in _OURS_ALONE and not child.startswith("_"):
            found = _find(behind)
        if found is None:
            import_module(parent)
            # `name` stays unset: `from tensorflow import x` drops the error of a submodule that
            # is named, and says in its place that it cannot import from "unknown location".
            raise ModuleNotFoundError(
                f"No module or name {fullname!r} in Stepscope's embedded engine: "
                f"{public_name(parent)!r} has no {child!r}; {what_to_do(parent, child)}"
            )
        # Each is a package, also where ours is not: so Python asks for what it lacks, here, in
        # place of saying that it cannot import the name from an unknown location.
        return ModuleSpec(fullname, _Loader(behind), origin=found.origin, is_package=True)


def _find(behind: str) -> ModuleSpec | None:
    try:
        return find_spec(behind)
    except ModuleNotFoundError:  # what it would lie in is no package
        return None


class _Loader(Loader):
    """Loads the module behind, and gives a stand-in for it that has the name that was asked for."""

    def __init__(self, behind: str) -> None:
        self._behind = behind

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name, import_module(self._behind))

    def exec_module(self, module: ModuleType) -> None:
        pass


class _StandIn(ModuleType):
    """A module under TensorFlow's name; its attributes are those of one of ours."""

    def __init__(self, name: str, behind: ModuleType) -> None:
        super().__init__(name, behind.__doc__)
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__all__", "__version__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(self._behind, name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return dir(self._behind)
