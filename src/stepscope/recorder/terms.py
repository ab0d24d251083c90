"""`Terms`: what a user grants a recorder, and wants of it.

>>> terms = Terms.of(budget="1%", memory="64 MB", disk="1 GB", keep={"slowest": 10})
>>> terms.budget, terms.memory, terms.keep.slowest
(0.01, 67108864, 10)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stepscope.recorder.budget import Budget
from stepscope.recorder.controller import Controller
from stepscope.recorder.keeping import Keep, Keeper, as_keep
from stepscope.recorder.triggers import Trigger, parse_share, parse_size, parse_triggers

__all__ = ["Terms"]


@dataclass(frozen=True, slots=True)
class Terms:
    """A share of the program's time, bytes of memory and disk, what to keep and when."""

    budget: float
    memory: int
    disk: int
    keep: Keep = field(default_factory=Keep)
    triggers: tuple[Trigger, ...] = ()
    whole: int = 0
    """So many runs of each kind are recorded in detail first, see `Budget`."""

    @classmethod
    def of(
        cls,
        budget: str | float | None = "1%",
        memory: str | float = "64 MB",
        disk: str | float = "1 GB",
        keep: Keep | Mapping[str, float] | None = None,
        triggers: Iterable[str | Trigger] | None = None,
    ) -> Terms:
        """The terms that text and numbers say; `InvalidArgumentError` for what says none."""
        return cls(
            parse_share(budget),
            parse_size(memory),
            parse_size(disk),
            as_keep(keep),
            parse_triggers(triggers),
        )

    @classmethod
    def of_script(cls, budget: str | float | None) -> Terms:
        """Those that a script is recorded on: of one that makes few runs all are kept."""
        keep = Keep(slowest=10, first=500, latest=10, sample=100)
        triggers = parse_triggers(["slow 3x", "error"])
        return cls(
            parse_share(budget), parse_size("64 MB"), parse_size("1 GB"), keep, triggers, 150
        )

    def controller(self, seed: int = 0) -> Controller:
        """What decides by them."""
        keeper = Keeper(self.keep, memory=self.memory, disk=self.disk, seed=seed)
        return Controller(Budget(self.budget, whole=self.whole, seed=seed), keeper, self.triggers)
