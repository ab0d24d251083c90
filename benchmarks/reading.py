"""Reading and writing large runs: a million executions into columns, beside protobuf's classes."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time_ns
from typing import Any

import numpy as np

from benchmarks.harness import Result, at_most, medians
from stepscope import _messages as pb
from stepscope.metadata import OpColumns, Recording, RunMetadata, TensorColumns, load
from stepscope.metadata.wire.step_stats import StepStatsTable

OPS = 1_000_000
PARTS = 50
NODES = 2_000
LIMIT_SECONDS = 6.0
LIMIT_SIZES = 8.0


def columns(rows: int) -> OpColumns:
    """Executions of 2,000 nodes again and again, with an output each."""
    nodes = [f"model/layer_{i % 50}/block_{i // 50}/MatMul" for i in range(NODES)]
    which = np.arange(rows) % NODES
    start = 1_794_769_119_769_750_449 + np.arange(rows) * 1_700
    return OpColumns.build(
        name=[nodes[i] for i in which.tolist()],
        op=["MatMul"] * rows,
        device=["/job:localhost/replica:0/task:0/device:CPU:0"] * rows,
        thread=np.arange(rows) % 4 + 1,
        scheduled_ns=start - 900,
        start_ns=start,
        end_ns=start + 1_500,
        label=[f"{nodes[i]} = MatMul({nodes[i]}/a, {nodes[i]}/b)" for i in which.tolist()],
        tensors=TensorColumns.build(
            op_index=np.arange(rows),
            slot=np.zeros(rows, np.int32),
            dtype=np.ones(rows, np.int32),
            shape=[(64, 256)] * rows,
            bytes=np.full(rows, 65_536),
        ),
    )


def recorded(rows: int) -> RunMetadata:
    metadata = RunMetadata()
    table = columns(rows)
    metadata.record(Recording(engine="bench", ops=lambda: table))
    return metadata


def large_file() -> bytes:
    """A run of a million executions: entries one after the other are one message."""
    part = recorded(OPS // PARTS).step_stats.SerializeToString()
    length, head = len(part) * PARTS, b""
    while length >= 0x80:
        head += bytes((length & 0x7F | 0x80,))
        length >>= 7
    return b"\x0a" + head + bytes((length,)) + part * PARTS


def through_protobuf(data: bytes) -> list[Any]:
    """What reading took without the decoder: the message, and a few fields of every node."""
    message = pb.RunMetadataMessage.FromString(data)
    return [
        (
            node.node_name, node.timeline_label, node.thread_id, node.all_start_nanos,
            node.op_start_rel_nanos, node.op_end_rel_nanos, node.all_end_rel_nanos,
            node.scheduled_nanos, [o.tensor_description.allocation_description.requested_bytes
                                   for o in node.output],
        )
        for device in message.step_stats.dev_stats
        for node in device.node_stats
    ]  # fmt: skip


def in_child(work: Callable[[], object]) -> tuple[float, int]:
    """Seconds of processor time and bytes of memory of a piece of work in its own process.

    Processor time, because the work has one thread and machines that measure have other things to
    do; alone on the machine it is the time one waits.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            t0 = process_time_ns()
            work()
            took = process_time_ns() - t0
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            os.write(write, f"{took} {grown * 1024}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        took, grown = pipe.read().split()
    os.waitpid(child, 0)
    return int(took) / 1e9, int(grown)


def reading(_tf: Any) -> Iterator[Result]:
    """A million executions from a file into columns, in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run_metadata.pb"
        path.write_bytes(large_file())
        size = path.stat().st_size

        def ours() -> None:
            metadata = load(path)
            assert isinstance(metadata, RunMetadata)
            assert len(metadata.ops) == OPS
            assert metadata.ops.output_bytes[-1] == 65_536

        def theirs() -> None:
            assert len(through_protobuf(path.read_bytes())) == OPS

        mine, other = [], []
        for _ in range(3):
            mine.append(in_child(ours))
            other.append(in_child(theirs))
        (seconds, memory), (their_seconds, their_memory) = sorted(mine)[1], sorted(other)[1]
    target, met = at_most(LIMIT_SECONDS, seconds)
    yield Result(
        "1,000,000 ops from a file into columns", seconds * 1e3, their_seconds * 1e3,
        seconds / their_seconds, f"{target} s", met, "ms",
        f"{size / 1e6:.0f} MB; theirs is a loop over protobuf's own objects",
    )  # fmt: skip
    target, met = at_most(LIMIT_SIZES, memory / size)
    yield Result(
        "the same, peak memory", memory / 2**20, their_memory / 2**20, memory / their_memory,
        f"{target} sizes", met, "MiB", f"{memory / size:.1f} times the file",
    )  # fmt: skip


def step_stats(_tf: Any) -> Iterator[Result]:
    """One message into columns, as a timeline of TensorFlow's message needs it."""
    rows = 10_000
    message = recorded(rows).step_stats

    def ours() -> object:
        return StepStatsTable(message.SerializeToString())

    def theirs() -> object:
        return [
            (n.node_name, n.timeline_label, n.all_start_micros, n.all_end_rel_micros)
            for d in message.dev_stats
            for n in d.node_stats
        ]

    mine, other = medians(ours, theirs, rounds=15, warmup=2)
    yield Result(
        "step stats of 10,000 nodes, per node", mine / rows / 1e3, other / rows / 1e3,
        mine / other, "", None, "us", "ours: all numbers and names; theirs: four fields",
    )  # fmt: skip


GROUPS = (reading, step_stats)
