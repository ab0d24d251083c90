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

    An adapter says so in `SESSION_TARGETS`; `runtime.session_targets` describes what stands there.
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
    raise FailedPreconditionError.without_op(
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
    """One run of a function, a model or any callable, on the engine its program uses.

    Args:
        callable: A `tf.function`, a Keras model, or any function of the program.
        *args: What it is called with.
        options: A `RunOptions` of any package; by default everything is traced that is cheap.
        run_metadata: Takes what the run did, also where it fails; what it held is replaced.
        **kwargs: What it is called with, by name.

    Returns:
        What the callable returns. What it raises is raised; an error of the engine has the
        metadata as `error.run_metadata`.

    Examples:
        >>> metadata = stepscope.RunMetadata()  # doctest: +SKIP
        >>> stepscope.run(train_step, batch, run_metadata=metadata)  # doctest: +SKIP
        >>> metadata.ops.name  # doctest: +SKIP

    """
    return adapter().run(callable, *args, options=options, run_metadata=run_metadata, **kwargs)


def observe(options: Any = None, run_metadata: Any = None) -> Any:
    """A block of code as one run, for eager code that is no function of its own.

    Args:
        options: A `RunOptions` of any package. A block cannot have a deadline.
        run_metadata: Takes what the block did; by default a new one.

    Returns:
        A context manager that gives the metadata, which is filled when the block ends.

    Examples:
        >>> with stepscope.observe() as metadata:  # doctest: +SKIP
        ...     tf.linalg.matmul(a, b)
        >>> metadata.ops.op  # doctest: +SKIP

    """
    return adapter().observe(options, run_metadata)


def annotate(name: str) -> Any:
    """A named span inside a run, as a context manager or decorator; spans nest.

    On the embedded engine inside Python ops (custom ops, `py_func`), on others wherever the run
    executes Python. Outside of a traced run it is not recorded.

    Examples:
        >>> with stepscope.annotate("decode"):  # doctest: +SKIP
        ...     images = decode(files)

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
