"""What the command imported before the program did, and the program imports as well.

A module that both import is loaded once, by whoever comes first: that is the command, and the
program would have waited for it without us. So each load is timed while the command starts, and
the program's import statements are looked at until TensorFlow is there, or else until it ends. A
module that one of them names is the program's, and with it all that loading it loaded; everything
else is a part of what recording costs.

    >>> earlier = EarlierImports()
    >>> earlier.loads += [
    ...     Load("email", 0, 50, 50, outer=-1),         # 50 ns, of which its import of
    ...     Load("email.utils", 10, 30, 20, outer=0),   # email.utils took 20
    ...     Load("click", 60, 80, 20, outer=-1),
    ... ]
    >>> earlier.claim("email.utils")     # with it comes the package that it lies in
    >>> [(load.name, load.took_ns) for load in earlier.shared()]
    [('email', 50)]

Guarantees: imports do, raise and show what they would. What the program imports in its functions
after TensorFlow is there is not seen: it is taken for ours.
"""

from __future__ import annotations

import builtins
import sys
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["EarlierImports", "Load", "early"]

_LOADER: Final = "_find_and_load"
_FILE, _NAME = "<frozen importlib._bootstrap>", "_call_with_frames_removed"
"""What frames are called that Python leaves out of the traceback of an import that fails."""
_WHOLE: Final = ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")
"""With any of these TensorFlow is imported as a whole, once the first is there."""
_OURS: Final = "stepscope"


class Load(NamedTuple):
    """A module that was loaded, from when to when by the wall clock."""

    name: str
    started_ns: int
    ended_ns: int
    took_ns: int
    """How long that was by the clock that costs are measured by."""
    outer: int
    """The place of the load that it was a part of; -1 of none."""


class EarlierImports:
    """Loads that came before the program, and which of them it asked for, too.

    Of one thread: what others import meanwhile is not timed.
    """

    def __init__(self) -> None:
        self.loads: list[Load] = []
        """In the order in which they began."""
        self.began_ns = 0
        """When the command did, by the clock that costs are measured by; 0 where nobody said so."""
        self._names: set[str] = set()
        self._claimed: set[str] = set()
        self._wanted: set[str] = set()
        """Names that import statements are looked for: those, and packages that they lie in."""
        self._stop_timing: Callable[[], None] = _nothing
        self._stop_looking: Callable[[], None] = _nothing

    # -- while the command starts --------------------------------------------------------------

    def watch(self) -> None:
        """The command begins: time what is loaded from now on, until `loaded`."""
        self.began_ns = time.perf_counter_ns()
        machinery: Any = sys.modules.get("_frozen_importlib")
        original = getattr(machinery, _LOADER, None)
        if not callable(original):
            return
        loads, names = self.loads, self._names
        clock, wall = time.perf_counter_ns, time.time_ns
        innermost = [-1]

        def find_and_load(name: str, import_: Any) -> Any:
            place, outer = len(loads), innermost[0]
            started, began = wall(), clock()
            loads.append(Load(name, started, started, 0, outer))
            names.add(name)
            innermost[0] = place
            try:
                return original(name, import_)
            finally:
                innermost[0] = outer
                loads[place] = Load(name, started, wall(), clock() - began, outer)

        code = find_and_load.__code__
        find_and_load.__code__ = code.replace(co_filename=_FILE, co_name=_NAME)
        setattr(machinery, _LOADER, find_and_load)

        def stop() -> None:
            if getattr(machinery, _LOADER) is find_and_load:
                setattr(machinery, _LOADER, original)

        self._stop_timing = stop

    def loaded(self) -> None:
        """What is loaded from now on is not timed: the program is, or what it needs in any case."""
        self._stop_timing()
        self._stop_timing = _nothing
        for name in self._names:
            self._wanted |= {name, name.rpartition(".")[0]}

    # -- while the program imports -------------------------------------------------------------

    def look_at_program(self) -> None:
        """Look at what import statements ask for that are not our own.

        To be called before others replace `__import__`, who put back what they found.
        """
        original, wanted, asked = builtins.__import__, self._wanted, self._asked

        # TensorFlow's import executes 45,000 of these.
        def importing(
            name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
        ) -> Any:
            if name in wanted and not level:
                asked(name, fromlist, globals)
            module = original(name, globals, locals, fromlist, level)
            if name in _WHOLE and _is_loaded(_WHOLE[0]):
                stop()
            return module

        code = importing.__code__
        importing.__code__ = code.replace(co_filename=_FILE, co_name=_NAME)
        builtins.__import__ = importing

        def stop() -> None:
            wanted.clear()
            if builtins.__import__ is importing:
                builtins.__import__ = original

        self._stop_looking = stop

    def _asked(self, name: str, fromlist: Iterable[str], by: Any) -> None:
        importer = str((by or {}).get("__name__", ""))
        if importer in self._names or importer.partition(".")[0] == _OURS:
            return
        for one in (name, *(f"{name}.{part}" for part in fromlist or ())):
            if one in self._names:
                self.claim(one)

    def claim(self, name: str) -> None:
        """The program imports that module, and so every package that it lies in."""
        while name:
            self._claimed.add(name)
            name = name.rpartition(".")[0]

    def stop(self) -> None:
        """Time and look at no more."""
        self._stop_timing()
        self._stop_timing = _nothing
        self._stop_looking()
        self._stop_looking = _nothing

    # -- what it came to -----------------------------------------------------------------------

    def shared(self) -> list[Load]:
        """The loads that the program asked for too; not those that lie in another of them."""
        inside: set[int] = set()
        found = []
        for place, load in enumerate(self.loads):
            if load.outer in inside:
                inside.add(place)
            elif load.name in self._claimed:
                inside.add(place)
                found.append(load)
        return found


def _nothing() -> None:
    """There is nothing to stop."""


def _is_loaded(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


early: Final = EarlierImports()
"""Those of this process's command."""
