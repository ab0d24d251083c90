"""How a run ended, what is missing from its record, what recording cost, where ops were placed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from stepscope.errors import code_from_name

__all__ = [
    "END_MISSING",
    "MEMORY_OF_KERNELS",
    "MEMORY_OF_THE_SYSTEM",
    "NOT_KNOWN",
    "OUTCOMES",
    "Completeness",
    "InFlight",
    "Loss",
    "Overhead",
    "Placement",
    "Status",
]

OUTCOMES: Final = ("failed", "cancelled", "abandoned", "waited_for", "running")
"""What may become of an op that was in flight when its run ended early."""


NOT_KNOWN: Final = "not known (file is cut)"
"""How a run ended, in words, where its record does not tell."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """An op that was executing when the run ended, and what became of it.

    `outcome` is one of `OUTCOMES`: *failed* (it ended the run), *cancelled* (it was interrupted),
    *abandoned* (it runs on, and nothing waits for it), *waited_for* (the run ended only when it
    did, `waited_ns` later), or *running* (nobody knows what became of it).
    """

    name: str
    outcome: str = "running"
    waited_ns: int = 0

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise ValueError(
                f"the outcome of {self.name!r} is {self.outcome!r}; "
                f"allowed are {', '.join(map(repr, OUTCOMES))}"
            )


@dataclass(frozen=True, slots=True)
class Status:
    """How a run ended. `code` is "OK" or the name of an error code such as "DEADLINE_EXCEEDED".

    `known` is False where the record does not tell, because the part of its file that did is
    missing; `code` is "UNKNOWN" then.
    """

    code: str = "OK"
    message: str = ""
    outcomes: tuple[InFlight, ...] = ()
    known: bool = True

    def __post_init__(self) -> None:
        code_from_name(self.code)
        object.__setattr__(self, "outcomes", tuple(self.outcomes))

    @property
    def ok(self) -> bool:
        """Whether the run ended as it should."""
        return self.code == "OK"

    @property
    def in_words(self) -> str:
        """The code as tables show it, or that it is not known."""
        return self.code if self.known else NOT_KNOWN

    @property
    def in_flight(self) -> list[str]:
        """The names of the ops that were executing when the run ended early."""
        return [op.name for op in self.outcomes]


END_MISSING: Final = Status(
    "UNKNOWN", "the part of the file that says how the run ended is missing", known=False
)
"""The status of a run whose file is cut or damaged before it."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that the record does not hold: what, how many (0 = not known), and why."""

    what: str
    count: int
    reason: str


MEMORY_OF_KERNELS: Final = "temporaries inside kernels, reused buffers"
"""What a record lacks whose memory is told by what ops put out."""
MEMORY_OF_THE_SYSTEM: Final = "memory that no allocator of TensorFlow gave"
"""What a record lacks whose memory was counted at the allocators."""


@dataclass(frozen=True, slots=True)
class Completeness:
    """What the record of a run lacks. Nothing declared means complete."""

    losses: tuple[Loss, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "losses", tuple(self.losses))

    @property
    def complete(self) -> bool:
        """Whether nothing was dropped, sampled out or left unmeasured."""
        return not self.losses

    @property
    def memory_is_estimated(self) -> bool:
        """Whether allocations and peaks follow from what ops put out, and nobody counted them."""
        return any(loss.what == MEMORY_OF_KERNELS for loss in self.losses)

    @property
    def damage(self) -> tuple[Loss, ...]:
        """The losses that come of a file that is damaged or cut."""
        return tuple(loss for loss in self.losses if loss.what.endswith(" of the file"))


@dataclass(frozen=True, slots=True)
class Overhead:
    """What recording cost: nanoseconds, and as a fraction of the run without recording."""

    ns: int = 0
    fraction: float = 0.0


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an op was placed and why.

    `requested` is the device the program asked for ("" for none), `assigned` the one it got.
    """

    node: str
    op: str
    requested: str
    assigned: str
    reason: str = field(default="")
