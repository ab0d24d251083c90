"""Nested structures of values, as loops and conditionals take and give them.

Lists, tuples, named tuples, dicts (in the order of their sorted keys), what their `values()` give
and the tensors of `IndexedSlices` and `SparseTensor`s are taken apart; anything else is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, ValuesView
from typing import Any

from stepscope.graph.indexed_slices import IndexedSlices
from stepscope.graph.sparse_tensor import SparseTensor

__all__ = ["check_same", "leaves", "mapped", "packed"]


def leaves(structure: Any) -> list[Any]:
    """The leaves, from left to right."""
    return list(_walk(structure))


def _walk(structure: Any) -> Iterator[Any]:
    if isinstance(structure, Mapping):
        for key in sorted(structure):
            yield from _walk(structure[key])
    elif isinstance(structure, (list, tuple, ValuesView)):
        for item in structure:
            yield from _walk(item)
    elif isinstance(structure, (IndexedSlices, SparseTensor)):
        yield from structure.parts()
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
    if isinstance(structure, ValuesView):
        return [_fill(item, values) for item in structure]
    if isinstance(structure, IndexedSlices):
        return IndexedSlices(*[next(values) for _ in structure.parts()])
    if isinstance(structure, SparseTensor):
        return SparseTensor(*[next(values) for _ in range(3)])
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
    if isinstance(structure, (list, tuple, ValuesView)):
        return [_shape_of(item) for item in structure]
    if isinstance(structure, IndexedSlices):
        return {"IndexedSlices": ["."] * len(structure.parts())}
    if isinstance(structure, SparseTensor):
        return {"SparseTensor": ["."] * 3}
    return "."
