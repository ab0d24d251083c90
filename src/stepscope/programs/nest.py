"""`tf.contrib.framework.nest`: nested structures of values, under TensorFlow's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stepscope.ops import structures

__all__ = [
    "assert_same_structure", "flatten", "is_nested", "is_sequence", "map_structure",
    "pack_sequence_as",
]  # fmt: skip


def is_sequence(structure: Any) -> bool:
    """Whether it is taken apart: a list, a tuple or a dict.

    >>> is_sequence([1]), is_sequence("text")
    (True, False)
    """
    return isinstance(structure, (list, tuple, Mapping))


is_nested = is_sequence


def flatten(structure: Any) -> list[Any]:
    """The leaves, from left to right.

    >>> flatten({"b": 1, "a": (2, [3])})
    [2, 3, 1]
    """
    return structures.leaves(structure)


def pack_sequence_as(structure: Any, flat_sequence: Any) -> Any:
    """The structure with other leaves.

    >>> pack_sequence_as([0, (0, 0)], [1, 2, 3])
    [1, (2, 3)]
    """
    values = list(flat_sequence)
    wanted = len(structures.leaves(structure))
    if len(values) != wanted:
        raise ValueError(f"The structure has {wanted} leaves, and {len(values)} were given.")
    return structures.packed(structure, values)


def map_structure(func: Callable[..., Any], *structure: Any, **_keywords: Any) -> Any:
    """What `func` makes of the leaves of structures that are nested alike.

    >>> map_structure(lambda a, b: a + b, (1, [2]), (10, [20]))
    (11, [22])
    """
    for other in structure[1:]:
        assert_same_structure(structure[0], other)
    rows = zip(*map(structures.leaves, structure), strict=True)
    return structures.packed(structure[0], [func(*row) for row in rows])


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """ValueError if the two are not nested alike."""
    del check_types
    structures.check_same(nest1, nest2, "assert_same_structure")
