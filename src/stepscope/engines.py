"""Which engine runs a callable: adapters are found by entry point, and asked in order.

An adapter's entry point is named after the package it adapts. It serves a program that has imported
that package; nothing is imported to find out.
"""

from __future__ import annotations

import sys
from contextlib import ContextDecorator
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from stepscope.errors import FailedPreconditionError
from stepscope.spans import Span

GROUP = "stepscope.adapters"
_last: tuple[str, Any, Any] = "", None, None
"""The adapter that was in use last: the package's name, the package, the adapter itself."""


@lru_cache(maxsize=1)
def _known() -> tuple[EntryPoint, ...]:
    return tuple(sorted(entry_points(group=GROUP), key=lambda e: e.name))


def session_targets() -> dict[str, Any]:
    """What the adapters run graphs of the embedded engine on: by target, or how targets begin.

    An adapter says so in `SESSION_TARGETS`; what stands there is described in `runtime.targets`.
    """
    found: dict[str, Any] = {}
    for entry in _known():
        found |= getattr(entry.load(), "SESSION_TARGETS", {})
    return found


def adapter() -> Any:
    """The adapter of the package this program uses; an error that says what there is otherwise."""
    found = adapter_in_use()
    if found is not None:
        return found
    names = ", ".join(e.name for e in _known()) or "none"
    raise FailedPreconditionError(
        None,
        None,
        f"No engine to run this on: none of the packages with an adapter ({names}) is imported. "
        "Graphs of the embedded engine run in a stepscope.Session.",
    )


def adapter_in_use() -> Any:
    """The adapter of the first package that this program has imported; None if it has none.

    The embedded engine in a package's place (`stepscope.tf1.shim`) is not that package.
    """
    global _last
    name, known, found = _last
    if name and sys.modules.get(name) is known:
        return found
    for entry in _known():
        package = sys.modules.get(entry.name)
        if package is not None and type(package).__module__ != "stepscope.tf1.shim":
            found = entry.load()
            _last = entry.name, package, found
            return found
    return None


def run(
    callable: Any, *args: Any, options: Any = None, run_metadata: Any = None, **kwargs: Any
) -> Any:
    """One run of a function, a model or any callable, on the engine its program uses."""
    return adapter().run(callable, *args, options=options, run_metadata=run_metadata, **kwargs)


def observe(options: Any = None, run_metadata: Any = None) -> Any:
    """A block as one run: `with stepscope.observe(options) as metadata:`."""
    return adapter().observe(options, run_metadata)


def annotate(name: str) -> Any:
    """A named span inside a run, as a context manager or decorator; spans nest.

    On the embedded engine inside Python ops (custom ops, `py_func`), on others wherever the run
    executes Python. Outside of a traced run it is not recorded.
    """
    span = Span(name)
    found = adapter_in_use()
    return span if found is None else _Both(span, found.annotate(name))


class _Both(ContextDecorator):
    """A span for the embedded engine and for the adapter's at once: either may be running."""

    def __init__(self, ours: Span, theirs: Any) -> None:
        self._parts = (ours, theirs)

    def __enter__(self) -> _Both:
        for part in self._parts:
            part.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for part in reversed(self._parts):
            part.__exit__(*error)
