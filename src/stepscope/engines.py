"""Which engine runs a callable: adapters are found by entry point, and asked in order.

An adapter's entry point is named after the package it adapts. It serves a program that has imported
that package; nothing is imported to find out.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from stepscope.errors import FailedPreconditionError

GROUP = "stepscope.adapters"


@lru_cache(maxsize=1)
def _known() -> tuple[EntryPoint, ...]:
    return tuple(sorted(entry_points(group=GROUP), key=lambda e: e.name))


def adapter() -> Any:
    """The adapter of the package this program uses; an error that says what there is otherwise."""
    known = _known()
    for entry in known:
        if entry.name in sys.modules:
            return entry.load()
    names = ", ".join(e.name for e in known) or "none"
    raise FailedPreconditionError(
        None,
        None,
        f"No engine to run this on: none of the packages with an adapter ({names}) is imported. "
        "Graphs of the embedded engine run in a stepscope.Session.",
    )


def run(
    callable: Any, *args: Any, options: Any = None, run_metadata: Any = None, **kwargs: Any
) -> Any:
    """One run of a function, a model or any callable, on the engine its program uses."""
    return adapter().run(callable, *args, options=options, run_metadata=run_metadata, **kwargs)


def observe(options: Any = None, run_metadata: Any = None) -> Any:
    """A block as one run: `with stepscope.observe(options) as metadata:`."""
    return adapter().observe(options, run_metadata)


def annotate(name: str) -> Any:
    """A named span inside a run, as a context manager or decorator; spans nest."""
    return adapter().annotate(name)
