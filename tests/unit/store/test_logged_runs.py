"""Runs that an executor logged are stored as they were logged, and come back as they would look."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_examples import recorded

from random_examples import examples
from run_content import content_of, of_ops
from stepscope.metadata import GraphFacts, RunMetadata, Status
from stepscope.metadata.logged_nodes import (
    DONE,
    ENDED,
    FAILED,
    OUTPUT,
    ROW,
    STARTED,
    InputRows,
    Log,
    LoggedNodes,
    nodes_of,
)
from stepscope.metadata.memory.logged_memory import CHANGE, LoggedMemory
from stepscope.metadata.stored.packing import PackedDamageError
from stepscope.metadata.stored.stored_log import StorableLog
from stepscope.metadata.stored.stored_run import RunEncoder, SharedPart, StoredRun, decoded_run

TYPES = ("Mul", "Const", "Identity", "Split")
SHAPES = [None, (), (2, 3), (7,), (0, 4)]
"""What tensors are, by number; 0 is none."""
NOW = 1_700_000_000_000_000_000
STEP = 17


@dataclass(eq=False)
class Graphs:
    """Graphs of so many nodes, the numbers of which count down."""

    sizes: list[int]

    def __post_init__(self):
        count = sum(self.sizes)
        # Names that are not in order, and one that several nodes have.
        names = [f"n{(5 * i) % count}" for i in range(count)]
        self.facts = GraphFacts.build(
            name=names, op=[TYPES[i % 4] for i in range(count)], device=["/cpu:0"] * count
        )
        self.numbers = np.arange(40, 40 - len(self.sizes), -1, dtype=np.uint32)
        self.lengths = np.array(self.sizes)
        self.constants = np.array([2 * (i % 4 == 1) for i in range(count)], np.uint32)
        places = np.arange(count, dtype=np.int32)
        self.edges = InputRows(places[:-1], places[:-1] % 2, places[1:])

    def nodes(self, rows):
        return nodes_of(self.numbers, self.lengths, rows)


class Descriptions:
    def of(self, numbers):
        shapes = np.empty(len(SHAPES), object)
        shapes[:] = SHAPES
        sizes = np.array([0, 4, 24, 28, 0])
        return np.arange(5, dtype=np.int32)[numbers], shapes[numbers], sizes[numbers]


@st.composite
def logs(draw, *, loops: bool):
    """A log, in any order, of nodes that ran once or, with `loops`, again."""
    graphs = Graphs(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    nodes = [
        (number, node)
        for number, size in zip(graphs.numbers, graphs.sizes, strict=True)
        for node in range(size)
    ]
    ran = draw(st.lists(st.sampled_from(nodes), unique=not loops, max_size=12))
    rows = np.zeros(len(ran), ROW)
    for row, (number, node) in zip(rows, ran, strict=True):
        row["graph"], row["node"] = number, node
        row["start"] = NOW + draw(st.integers(0, 50))
        row["state"] = draw(st.sampled_from([STARTED, ENDED, DONE, DONE, DONE, FAILED]))
        row["end"] = 0 if row["state"] == STARTED else row["start"] + draw(st.integers(0, 50))
        row["scheduled"] = draw(st.sampled_from([0, NOW - 5, NOW + 100]))
        row["thread"] = draw(st.integers(1, 3))
        row["output"] = draw(st.integers(0, 4))
    more = draw(st.lists(st.integers(0, len(ran) - 1), max_size=4)) if ran else []
    outputs = np.zeros(len(more), OUTPUT)
    outputs["row"], outputs["slot"], outputs["output"] = more, np.arange(len(more)) + 1, 3
    memory = memory_of(draw, len(ran)) if draw(st.booleans()) else None
    return LoggedNodes(Log(rows, outputs, memory), graphs, Descriptions())


def memory_of(draw, rows: int) -> LoggedMemory:
    """What some of them took, and some gave back."""
    changes = []
    for row in draw(st.lists(st.integers(0, rows - 1), unique=True)) if rows else ():
        allocator, time = draw(st.integers(0, 1)), NOW // 1000 + draw(st.integers(0, 1))
        for size in draw(st.lists(st.sampled_from([4, 24, 1 << 40]), min_size=1, max_size=3)):
            changes.append((time, size, row, allocator, 0))
            if draw(st.booleans()):
                later = draw(st.integers(0, 1))
                changes.append((time + later, -size, row, allocator, later))
    return LoggedMemory(np.array(changes, CHANGE), ("cpu", "another"))


def run_of(nodes: LoggedNodes, *, failed: bool = False, outputs: bool = True) -> RunMetadata:
    """The run as an engine hands it over."""
    names = {1: "main", 3: "pool"}

    def ops():
        return nodes.columns(STEP, names, failed=failed, outputs=outputs)

    return recorded(
        step_id=STEP, ops=ops, status=Status("UNKNOWN", "no") if failed else Status(),
        allocations=lambda: nodes.allocations(ops(), STEP),
        log=StorableLog(nodes, names, outputs=outputs, allocations=outputs),
    )  # fmt: skip


@given(logs(loops=False), st.booleans(), st.booleans())
@examples(150)
def test_everything_comes_back(nodes, failed, outputs):
    metadata = run_of(nodes, failed=failed, outputs=outputs)
    stored = RunEncoder().encode(metadata, "step")
    assert "times" not in stored.parts, "it is stored as it was logged"
    again = decoded_run(stored)
    ops = metadata.ops
    assert of_ops(again.ops) == of_ops(ops)
    assert content_of(again.allocations) == content_of(metadata.allocations)
    assert again.status == metadata.status
    told = (stored.ops, stored.started_ns, stored.ended_ns)
    assert told == ((len(ops), ops.start_ns.min(), ops.end_ns.max()) if len(ops) else (0, 0, 0))


@given(logs(loops=True))
@examples(60)
def test_allocations_of_a_run_with_loops_are_those_that_were_recorded(nodes):
    metadata = run_of(nodes)
    stored = RunEncoder().encode(metadata)
    assert ("allocations" in stored.columns) == (not nodes.tells_allocations)
    again = decoded_run(stored)
    assert of_ops(again.ops) == of_ops(metadata.ops)
    assert content_of(again.allocations) == content_of(metadata.allocations)


def test_what_was_written_to_a_logged_run_is_stored():
    rows = np.zeros(1, ROW)
    rows["graph"], rows["state"], rows["start"], rows["end"] = 40, DONE, NOW, NOW + 9
    metadata = run_of(LoggedNodes(Log(rows, np.zeros(0, OUTPUT)), Graphs([1]), Descriptions()))
    metadata.step_stats.dev_stats[0].node_stats[0].node_name = "renamed"
    assert decoded_run(RunEncoder().encode(metadata)).ops.name.tolist() == ["renamed"]


def test_runs_of_one_graph_have_all_parts_in_common():
    encoder, graphs = RunEncoder(), Graphs([3])
    stored = []
    for number in range(3):
        rows = np.zeros(3, ROW)
        rows["graph"], rows["node"], rows["state"], rows["output"] = 40, range(3), DONE, 2
        rows["start"] = NOW + 100 * number + np.arange(3)
        rows["end"] = rows["start"] + 1
        nodes = LoggedNodes(Log(rows, np.zeros(0, OUTPUT)), graphs, Descriptions())
        stored.append(encoder.encode(run_of(nodes)))
    first, *others = ({name: part.digest for name, (part,) in run.parts.items()} for run in stored)
    assert others == [first] * 2


@pytest.mark.parametrize("what", ["log", "graphs", "descriptions"])
def test_bytes_that_nobody_wrote_are_no_rows(what):
    rows = np.zeros(2, ROW)
    rows["graph"], rows["node"], rows["state"], rows["output"] = 40, range(2), DONE, 2
    nodes = LoggedNodes(Log(rows, np.zeros(0, OUTPUT)), Graphs([2]), Descriptions())

    def damaged(content: bytes) -> StoredRun:
        run = RunEncoder().encode(run_of(nodes))
        if what == "log":
            run.columns["log"] = content
        else:
            run.parts[what] = (SharedPart(content),)
        return run

    run = RunEncoder().encode(run_of(nodes))
    whole = run.columns["log"] if what == "log" else run.parts[what][0].content
    assert len(decoded_run(damaged(whole)).ops) == 2
    for content in (b"", whole[:-1], whole[: len(whole) // 2]):
        with pytest.raises(PackedDamageError):
            decoded_run(damaged(content)).ops.name.tolist()
