"""How a run ended, what is missing from its record, what recording cost, where ops were placed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from stepscope.errors import code_from_name

__all__ = ["OUTCOMES", "Completeness", "InFlight", "Loss", "Overhead", "Placement", "Status"]

OUTCOMES: Final = ("failed", "cancelled", "abandoned", "waited_for", "running")
"""What may become of an op that was in flight when its run ended early."""


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
    """How a run ended. `code` is "OK" or the name of an error code such as "DEADLINE_EXCEEDED"."""

    code: str = "OK"
    message: str = ""
    outcomes: tuple[InFlight, ...] = ()

    def __post_init__(self) -> None:
        code_from_name(self.code)
        object.__setattr__(self, "outcomes", tuple(self.outcomes))

    @property
    def ok(self) -> bool:
        """Whether the run ended as it should."""
        return self.code == "OK"

    @property
    def in_flight(self) -> list[str]:
        """The names of the ops that were executing when the run ended early."""
        return [op.name for op in self.outcomes]


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that the record does not hold: what, how many (0 = not known), and why."""

    what: str
    count: int
    reason: str


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
