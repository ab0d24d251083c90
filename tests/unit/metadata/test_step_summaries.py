"""Sums of what ops took in many runs: whether they come one by one or many at once."""

from __future__ import annotations

import doctest
from collections import Counter

import numpy as np
import pytest

from stepscope.metadata import GraphFacts, OpColumns
from stepscope.metadata.stored import step_summaries
from stepscope.metadata.stored.step_summaries import BATCHES, OpSums

NODES = {"a": "MatMul", "b": "AddV2", "c": "MatMul", "d": "Relu"}


def random_run(chance: np.random.Generator, facts: GraphFacts) -> OpColumns:
    """Executions that overlap, nest and repeat, on threads of which one is not known."""
    count = int(chance.integers(0, 12))
    start = chance.integers(0, 40, count)
    return OpColumns.over(
        facts, node=chance.integers(0, len(NODES), count), thread=chance.integers(0, 3, count),
        scheduled_ns=start, start_ns=start, end_ns=start + chance.integers(-2, 20, count),
    )  # fmt: skip


@pytest.fixture
def runs() -> list[OpColumns]:
    chance = np.random.default_rng(5)
    graphs = [
        GraphFacts.build(name=list(names), op=[NODES[n] for n in names], device=["/cpu:0"] * 4)
        for names in ("abcd", "dcba")
    ]
    return [random_run(chance, graphs[number % 3 == 0]) for number in range(200)]


def covered(spans: list[tuple[int, int]]) -> int:
    return len({ns for start, end in spans for ns in range(start, end)})


def test_sums_of_many_at_once_are_those_of_one_by_one(runs):
    together, apart = OpSums(), OpSums()
    together.add(runs)
    for run in runs:
        apart.add([run])
    assert together.to_bytes() == apart.to_bytes()


def test_sums_are_those_of_every_execution(runs):
    sums = OpSums()
    sums.add(runs)
    with_ops = [run for run in runs if len(run)]
    took, calls, of_types, whole = Counter(), Counter(), Counter(), 0
    for run in with_ops:
        rows = list(zip(run.name, run.op, run.start_ns.tolist(), run.end_ns.tolist(), strict=True))
        for name, _, start, end in rows:
            took[name] += max(0, end - start)
            calls[name] += 1
        for kind in set(NODES.values()):
            of_types[kind] += covered([(start, end) for _, op, start, end in rows if op == kind])
        whole += covered([(start, end) for *_, start, end in rows])
    assert dict(zip(sums.name, sums.total_ns.tolist(), strict=True)) == dict(took)
    assert dict(zip(sums.name, sums.calls.tolist(), strict=True)) == dict(calls)
    assert dict(zip(sums.types, sums.type_covered_ns.tolist(), strict=True)) == dict(of_types)
    assert sums.covered_ns == whole
    assert sums.runs == len(with_ops)
    assert sums.batch_runs.max() - sums.batch_runs.min() <= 1, f"dealt out to {BATCHES} batches"
    assert (sums.batch_own_ns.sum(0) == sums.own_ns).all()


def test_the_worked_example():
    assert doctest.testmod(step_summaries).failed == 0
