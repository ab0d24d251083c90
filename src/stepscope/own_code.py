"""Which code is Stepscope's own: told by its modules, never by what files and folders are called.

A clone may lie anywhere and under any name, a user's script may be called `stepscope_train.py` or
lie beside the package, and paths may lead through links. Only where somebody else knows frames by
their files alone (TensorFlow does) are files needed, and those are the modules' own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pkgutil import iter_modules
from types import FrameType, ModuleType, TracebackType

__all__ = ["files_of", "is_ours", "is_own_module", "without_ours"]

_PACKAGE = __name__.partition(".")[0]
_INSIDE = f"{_PACKAGE}."


def is_own_module(name: object) -> bool:
    """Whether a module of that name is one of this package."""
    return isinstance(name, str) and (name.startswith(_INSIDE) or name == _PACKAGE)


def is_ours(frame: FrameType) -> bool:
    """Whether it executes code of a module of this package."""
    return is_own_module(frame.f_globals.get("__name__"))


def files_of(package: ModuleType) -> frozenset[str]:
    """The files of a package's modules, of those in it that are not loaded yet, and of ours."""
    found = {
        getattr(module, "__file__", None)
        for name, module in list(sys.modules.items())
        if is_own_module(name)
    }
    found.update(_files_in(package.__path__, package.__name__))
    return frozenset(file for file in found if file is not None)


def _files_in(folders: Iterable[str], name: str) -> Iterator[str | None]:
    """The files of a package's modules and of the packages in it; none of them is loaded."""
    for module in iter_modules(folders):
        finder = module.module_finder
        spec = finder.find_spec(f"{name}.{module.name}", None)
        if spec is None:
            continue
        yield spec.origin
        if spec.submodule_search_locations is not None:
            yield from _files_in(spec.submodule_search_locations, spec.name)


def without_ours(trace: TracebackType | None, *, raised: bool = True) -> TracebackType | None:
    """The traceback without our frames, but for those at its end, where we raised the error.

    With `raised` false, also without those: somebody else raised it, and has hidden where.
    The frames that stay are those of the traceback itself: its links are changed.
    """
    kept: list[TracebackType] = []
    ours: list[TracebackType] = []
    while trace is not None:
        if is_ours(trace.tb_frame):
            ours.append(trace)
        else:
            kept.append(trace)
            ours.clear()
        trace = trace.tb_next
    kept += ours if raised else []
    for place, one in enumerate(kept):
        one.tb_next = kept[place + 1] if place + 1 < len(kept) else None
    return kept[0] if kept else None
