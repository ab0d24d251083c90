"""What a program fed, and how often it was the same, from the notes of its recording."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from stepscope.metadata import Note

__all__ = ["Feed", "feeds_of"]

_LEAST_TIMES: Final = 5
_LEAST_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class Feed:
    """A tensor that was fed `times` times, `same` times with what it had been fed before."""

    name: str
    times: int
    same: int
    bytes: int

    @property
    def constant(self) -> bool:
        """Whether it never changed, and is worth a word.

        >>> Feed("table:0", 40, 39, 2_000_000).constant, Feed("x:0", 40, 0, 2_000_000).constant
        (True, False)
        """
        return (
            self.times >= _LEAST_TIMES
            and self.same == self.times - 1
            and self.bytes >= _LEAST_BYTES
        )


def feeds_of(notes: Iterable[Note]) -> list[Feed]:
    """What notes of kind "feeds" tell; the last of them counts."""
    found: dict[str, Feed] = {}
    for note in notes:
        for name, (times, same, size) in note.details.get("feeds", {}).items():
            found[name] = Feed(str(name), int(times), int(same), int(size))
    return list(found.values())
