"""Session targets: who runs a session whose target is not this process.

Adapters register the targets they serve (`grpc://...`); the embedded engine serves "".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.errors import UnimplementedError

_targets: dict[str, Callable[..., Any]] = {}


def register_target(prefix: str, factory: Callable[..., Any]) -> None:
    """Serve targets that start with `prefix`."""
    _targets[prefix] = factory


def session_for_target(target: str) -> None:
    """Check that a target can be served; UnimplementedError naming it and what can be."""
    if target == "":
        return
    known = ", ".join(repr(p) for p in sorted(_targets)) or "none"
    raise UnimplementedError(
        None,
        None,
        f"No engine is registered for the session target {target!r}; registered: {known}. "
        "Leave the target empty for the embedded engine.",
    )
