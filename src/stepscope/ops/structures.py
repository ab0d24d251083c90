"""Nested structures of values, as loops and conditionals take and give them.

Lists, tuples, named tuples and dicts (in the order of their sorted keys) are taken apart; anything
else is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["check_same", "leaves", "mapped", "packed"]


def leaves(structure: Any) -> list[Any]:
    """The leaves, from left to right."""
    return list(_walk(structure))


def _walk(structure: Any) -> Iterator[Any]:
    if isinstance(structure, Mapping):
        for key in sorted(structure):
            yield from _walk(structure[key])
    elif isinstance(structure, (list, tuple)):
        for item in structure:
            yield from _walk(item)
    else:
        yield structure


def packed(structure: Any, values: list[Any]) -> Any:
    """The structure with other leaves."""
    return _fill(structure, iter(values))


def mapped(function: Callable[[Any], Any], structure: Any) -> Any:
    """The structure with `function` applied to each leaf."""
    return packed(structure, [function(leaf) for leaf in leaves(structure)])


def _fill(structure: Any, values: Iterator[Any]) -> Any:
    if isinstance(structure, Mapping):
        filled = {key: _fill(structure[key], values) for key in sorted(structure)}
        return type(structure)((key, filled[key]) for key in structure)  # type: ignore[call-arg]
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*[_fill(item, values) for item in structure])
    if isinstance(structure, (list, tuple)):
        return type(structure)([_fill(item, values) for item in structure])
    return next(values)


def check_same(first: Any, second: Any, what: str) -> None:
    """ValueError, beginning with `what`, if the structures differ."""
    if _shape_of(first) != _shape_of(second):
        raise ValueError(
            f"{what}: the two structures don't have the same nested structure. "
            f"First structure: {_shape_of(first)}, second structure: {_shape_of(second)}."
        )


def _shape_of(structure: Any) -> Any:
    if isinstance(structure, Mapping):
        return {key: _shape_of(structure[key]) for key in sorted(structure)}
    if isinstance(structure, (list, tuple)):
        return [_shape_of(item) for item in structure]
    return "."
