"""Names of graph elements put into a name scope, and taken out of one."""

from __future__ import annotations

_MARKS = ("loc:@", "^")


def under_scope(name: str, scope: str | None) -> str:
    """The name as it is once its graph was imported into `scope`."""
    if not scope:
        return name
    mark = next((m for m in _MARKS if name.startswith(m)), "")
    return f"{mark}{scope.rstrip('/')}/{name[len(mark) :]}"


def in_scope(name: str, scope: str | None) -> bool:
    """Whether that name is in the scope; every name is in no scope."""
    return not scope or name.startswith(scope.rstrip("/") + "/")


def without_scope(name: str, scope: str | None) -> str:
    """The name relative to a scope it is in."""
    if not scope:
        return name
    mark = next((m for m in _MARKS if name.startswith(m)), "")
    return mark + name[len(mark) :].removeprefix(scope.rstrip("/") + "/")
