"""Runs to store: random ones with everything in them, and simple ones that are told apart."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from stepscope import RunOptions
from stepscope import _messages as pb
from stepscope.metadata import (
    AllocationColumns,
    Completeness,
    GraphFacts,
    InFlight,
    Loss,
    MemoryColumns,
    OpColumns,
    Overhead,
    Placement,
    Recording,
    RunMetadata,
    Status,
    TensorColumns,
)
from stepscope.metadata.memory.out_of_memory import HeldMemory, MemoryRequest, OutOfMemory

TIME = st.integers(1_600_000_000_000_000_000, 1_800_000_000_000_000_000)
SIZE = st.integers(0, 1 << 40)
NAME = st.text("abc/_é", min_size=1, max_size=5)
SHAPE = st.none() | st.tuples() | st.tuples(st.integers(-1, 1 << 33), st.integers(0, 5))
GRAPH = pb.GraphDef(node=[pb.NodeDef(name="a", op="Const", device="/cpu:0")])


def simple_run(number: int, ops: int = 3, facts: GraphFacts | None = None) -> RunMetadata:
    """A run that is told by its step, of nodes n0, n1 and so on, each of which takes 100 ns."""
    if facts is None:
        names = [f"n{i}" for i in range(ops)]
        facts = GraphFacts.build(name=names, op=["Mul"] * ops, device=["/cpu:0"] * ops)
    start = 1_700_000_000_000_000_000 + number * 1_000_000 + np.arange(ops) * 1000
    columns = OpColumns.over(
        facts,
        node=np.arange(ops),
        thread=np.full(ops, 7),
        scheduled_ns=start,
        start_ns=start,
        end_ns=start + 100,
        step=number,
    )
    return recorded(ops=lambda: columns, step_id=number)


def recorded(**parts: object) -> RunMetadata:
    """A run that an engine recorded."""
    metadata = RunMetadata()
    metadata.record(Recording(**{"engine": "embedded", **parts}))  # type: ignore[arg-type]
    return metadata


@st.composite
def op_columns(draw: st.DrawFn) -> OpColumns:
    """Executions of a few nodes, in any order, some more than once."""
    nodes = draw(st.lists(st.tuples(NAME, NAME, NAME, NAME), min_size=1, max_size=5))
    names, types, devices, labels = zip(*nodes, strict=True)
    facts = GraphFacts.build(
        name=names,
        op=types,
        device=devices,
        label=labels if draw(st.booleans()) else None,
        source=labels if draw(st.booleans()) else None,
        outputs=draw(tensor_columns(len(nodes))) if draw(st.booleans()) else None,
    )
    node = np.array(draw(st.lists(st.integers(0, len(nodes) - 1), max_size=8)), np.int32)
    rows = len(node)

    def some(values: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(values, min_size=rows, max_size=rows))

    own_kernel = draw(st.booleans())
    return OpColumns.over(
        facts,
        node=node,
        thread=some(st.integers(-(1 << 63), (1 << 63) - 1)),
        scheduled_ns=some(TIME),
        start_ns=some(TIME),
        end_ns=some(TIME),
        op_start_ns=some(TIME) if own_kernel else None,
        op_end_ns=some(TIME) if own_kernel else None,
        step=some(st.integers(0, 1 << 40)) if draw(st.booleans()) else 3,
        thread_names=draw(st.dictionaries(st.integers(-5, 1 << 62), NAME, max_size=3)),
        tensors=draw(tensor_columns(rows)),
        memory=draw(memory_columns(rows)),
    )


@st.composite
def tensor_columns(draw: st.DrawFn, ops: int) -> TensorColumns:
    """Outputs of so many ops, in any order."""
    row = st.tuples(st.integers(0, ops - 1), st.integers(0, 3), SHAPE, SIZE, NAME)
    rows = draw(st.lists(row, max_size=6)) if ops else []
    index, slots, shapes, sizes, allocators = zip(*rows, strict=True) if rows else ((),) * 5
    return TensorColumns.build(
        op_index=index,
        slot=slots,
        dtype=[slot + 1 for slot in slots],
        shape=shapes,
        bytes=sizes,
        allocated_bytes=[size + 1 for size in sizes] if draw(st.booleans()) else None,
        address=np.array([size * 7919 for size in sizes], np.uint64),
        allocator=allocators,
    )


@st.composite
def memory_columns(draw: st.DrawFn, ops: int) -> MemoryColumns:
    """Memory of so many ops, in any order."""
    records = st.lists(st.tuples(TIME.map(lambda ns: ns // 1000 * 1000), SIZE), max_size=3)
    row = st.tuples(st.integers(0, ops - 1), SIZE, records, NAME)
    rows = draw(st.lists(row, max_size=5)) if ops else []
    index, sizes, of_each, allocators = zip(*rows, strict=True) if rows else ((),) * 4
    return MemoryColumns.build(
        op_index=index,
        total_bytes=sizes,
        peak_bytes=[size // 2 for size in sizes],
        live_bytes=[-size for size in sizes],
        allocator=allocators,
        records=of_each,
    )


@st.composite
def allocation_columns(draw: st.DrawFn) -> AllocationColumns:
    """Allocations and frees."""
    row = st.tuples(NAME, TIME, st.integers(-(1 << 50), 1 << 50), SHAPE)
    rows = draw(st.lists(row, max_size=6))
    names, times, sizes, shapes = zip(*rows, strict=True) if rows else ((),) * 4
    return AllocationColumns.build(
        name=names,
        device=names,
        time_ns=times,
        bytes=sizes,
        address=np.array([abs(size) for size in sizes], np.uint64),
        slot=range(len(names)),
        dtype=range(len(names)),
        shape=shapes,
        kind="output",
        step=5,
    )


OUT_OF_MEMORY = OutOfMemory(
    request=MemoryRequest("big", 1 << 30, "/cpu:0", 0, (1 << 20, 4), 1, "train.py:3", 5),
    limit=1 << 20,
    live=12,
    cached=None,
    rows=(HeldMemory("small", "train.py:2", "variable", "/cpu:0", 1, 12, "(3,)"),),
    grown=(),
    advice="take a smaller batch",
)

LOSSES = st.lists(st.builds(Loss, NAME, st.integers(0, 9), NAME), max_size=2).map(tuple)


@st.composite
def runs(draw: st.DrawFn) -> RunMetadata:
    """A run with any of what a recording may hold."""
    ops = draw(op_columns())
    parts: dict[str, object] = {
        "recorder": draw(st.sampled_from(["", "executor"])),
        "step_id": draw(st.integers(0, 1 << 62)),
        "status": draw(
            st.sampled_from(
                [
                    Status(),
                    Status("DEADLINE_EXCEEDED", "late", (InFlight("a", "waited_for", 7),)),
                ]
            )
        ),
        "completeness": Completeness(draw(LOSSES)),
        "overhead": Overhead(draw(st.integers(0, 1 << 40)), draw(st.floats(0, 10))),
        "ops": lambda: ops,
    }
    optional = {
        "peak_bytes": st.dictionaries(NAME, SIZE, max_size=2).map(_given),
        "allocations": allocation_columns().map(_given),
        "allocation_log": allocation_columns().map(_given),
        "out_of_memory": st.just(OUT_OF_MEMORY),
        "partition_graphs": st.lists(st.just(GRAPH), max_size=2).map(_given),
        "function_graphs": st.just([pb.RunMetadataMessage.FunctionGraphs()]).map(_given),
        "cost_graph": st.just(pb.CostGraphDef(node=[pb.CostGraphDef.Node(name="a")])).map(_given),
        "session_metadata": st.just(pb.SessionMetadata(name="model", version=3)),
        "placements": st.just([Placement("a", "Mul", "", "/cpu:0", "only one")]).map(_given),
        "sources": st.dictionaries(NAME, st.just("train.py:7"), max_size=3).map(_given),
        "run_options": st.just(RunOptions(trace_level=3, timeout_in_ms=5)),
    }
    for name in draw(st.sets(st.sampled_from(sorted(optional)))):
        parts[name] = draw(optional[name])
    return recorded(**parts)


def _given(value: object) -> object:
    return lambda: value
