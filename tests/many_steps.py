"""A store of very many steps, recorded by the recorder's own code under a clock that is set.

Two kinds of steps of some milliseconds, with 100 ops and 10; one in 997 takes ten times as
long, in one op. What recording costs is the process's own time, so that it is as much as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stepscope.metadata import OpColumns, Recording, RunMetadata
from stepscope.metadata.stored.step_summaries import Level
from stepscope.recorder.kept_runs import KeptRuns
from stepscope.recorder.terms import Terms
from stepscope.store import Store

KINDS = {"train_step": 100, "evaluate": 10}
EVALUATED = 50
"""Each so many steps are one of the second kind."""
SLOW = 997
_TYPES = ("MatMul", "BiasAdd", "Relu", "Conv2D", "AddV2")


class Steps:
    """The runs of a kind: over one graph, each with times of its own."""

    def __init__(self, kind: str, ops: int, chance: np.random.Generator) -> None:
        self._chance = chance
        types = [_TYPES[place % len(_TYPES)] for place in range(ops)]
        zeros = np.zeros(ops, np.int64)
        self._ops = OpColumns.build(
            name=[f"{kind}/layer_{place // 5}/{op}" for place, op in enumerate(types)], op=types,
            device=["/device:CPU:0"] * ops, thread=[1] * ops, scheduled_ns=zeros, start_ns=zeros,
            end_ns=zeros,
        )  # fmt: skip
        self._mean = 4_000_000 / ops

    def lengths(self, slow: bool) -> np.ndarray:
        """How long each op takes in one of them."""
        took = self._chance.gamma(20, self._mean / 20, len(self._ops)).astype(np.int64)
        if slow:
            took[len(took) // 2] += 9 * int(took.sum())
        return took

    def run(self, began: int, took: np.ndarray) -> RunMetadata:
        """One that began then."""
        ends = began + np.cumsum(took)
        ops = self._ops.replace(scheduled_ns=ends - took, start_ns=ends - took, end_ns=ends)
        return RunMetadata.of(Recording(engine="embedded", ops=lambda: ops))


class Recorded(NamedTuple):
    """The store, and how long the ops of each type took in all steps.

    `unseen` of that went into slow steps of which no more than the length was noted: no sample
    tells by how much they change what ops take.
    """

    store: Path
    truth: dict[str, float]
    unseen: float


def record(directory: Path, steps: int, budget: str = "1%", seed: int = 1) -> Recorded:
    """Record so many steps.

    Of those whose op times are not noted only the length is drawn, of which each type has a part.
    """
    chance = np.random.default_rng(seed)
    kinds = {kind: Steps(kind, ops, chance) for kind, ops in KINDS.items()}
    now, of_types, unseen = 10**18, np.zeros(len(_TYPES)), 0
    store = Store(directory)
    terms = Terms.of(budget)
    runs = KeptRuns(store, terms.controller(seed), clock=lambda: now)
    for number in range(1, steps + 1):
        kind = "evaluate" if number % EVALUATED == 0 else "train_step"
        made = kinds[kind]
        began, begun = now, runs.begins(kind)
        noted = begun.level >= Level.TIMES
        slow = number % SLOW == 0
        # Drawing a hundred lengths for each of a million steps would take minutes.
        took = made.lengths(slow) if noted or slow else None
        length = int(chance.gamma(20, 200_000)) if took is None else int(took.sum())
        unseen += 0 if noted or not slow else length
        now += length
        of_types += length / len(_TYPES) if took is None else took.reshape(-1, len(_TYPES)).sum(0)
        metadata = None
        if noted and took is not None:
            metadata = made.run(began, took)
        runs.ended(begun, engine="embedded", metadata=metadata, label=kind)
        now += 50_000
    runs.close()
    store.close()
    runs.over()
    assert store.problem is None, store.problem
    truth = dict(zip(_TYPES, of_types.tolist(), strict=True))
    return Recorded(store.path, truth, unseen)


if __name__ == "__main__":
    print(record(Path(sys.argv[1]), int(sys.argv[2])).store)
