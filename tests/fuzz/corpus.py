"""Small files of every kind that is read, and ways to break them.

Input number i follows from its number and from the files to start from, which are made here.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import stepscope
import stepscope.tf1 as tf
from stepscope.export import FileWriter, Timeline, chrome
from stepscope.metadata import RunMetadata
from stepscope.metadata.wire.records import frame
from stepscope.metadata.xplane import XSpace

DATA = Path(__file__).parents[1] / "data"


def embedded_run() -> RunMetadata:
    """A run of the embedded engine, with memory, allocation log, graphs and sources."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [4, 4], name="x")
        y = tf.reduce_sum(tf.matmul(x, x) + 1.0)
        metadata = stepscope.RunMetadata()
        options = stepscope.RunOptions(
            trace_level=stepscope.RunOptions.FULL_TRACE, output_partition_graphs=True
        )
        session.run(y, {x: np.ones((4, 4), np.float32)}, options=options, run_metadata=metadata)
    return metadata


def profile() -> bytes:
    """A profile of two threads and an accelerator."""
    space = XSpace()
    host = space.planes.add(name="/host:CPU")
    names = ["ExecutorState::Process", "mm:MatMul", "add:AddV2", "EagerLocalExecute: Relu"]
    for key, name in enumerate(names, 1):
        host.event_metadata[key].id = key
        host.event_metadata[key].name = name
    host.stat_metadata[1].name = "id"
    for number in range(2):
        line = host.lines.add(id=number + 1, name=f"thread {number}", timestamp_ns=10**18)
        outer = line.events.add(metadata_id=1, offset_ps=0, duration_ps=10**7)
        outer.stats.add(metadata_id=1, int64_value=7)
        for place in range(4):
            line.events.add(metadata_id=2 + place % 2, offset_ps=place * 10**6, duration_ps=900_000)
        line.events.add(metadata_id=4, offset_ps=2 * 10**7, duration_ps=5)
    gpu = space.planes.add(name="/device:GPU:0")
    gpu.event_metadata[1].name = "gemm"
    gpu.stat_metadata[1].name = "tf_op"
    line = gpu.lines.add(id=3, name="Stream #14(Compute)", timestamp_ns=10**18)
    line.events.add(metadata_id=1, offset_ps=9, duration_ps=8).stats.add(
        metadata_id=1, str_value="mm:MatMul"
    )
    space.planes.add(name="Task Environment")
    data: bytes = space.SerializeToString()
    return data


@cache
def seeds() -> tuple[tuple[str, bytes], ...]:
    """(name, content) of the files to start from."""
    captures = [
        (DATA / name / "run_metadata.pb").read_bytes()
        for name in ("py_function", "synthetic_rpc_oddlabels", "distributed_ps_worker")
    ]
    ours = embedded_run()
    found = [("run_metadata.pb", content) for content in captures]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        found.append(("run_metadata.pb", ours.save(place / "ours.pb").read_bytes()))
        with FileWriter(place) as writer:
            writer.add_run_metadata(RunMetadata.FromString(captures[0]), "first", 1)
            writer.add_run_metadata(ours, "second", 2)
        (events,) = place.glob("*tfevents*")
        found.append((events.name, events.read_bytes()))
    timeline = Timeline(RunMetadata.FromString(captures[0]).step_stats)
    drawn = timeline.generate_chrome_trace_format(show_memory=True)
    exported = chrome([("a", ours), ("b", RunMetadata.FromString(captures[0]))])
    pretty = json.dumps(json.loads(drawn), indent=4)
    texts = (drawn, exported, pretty, json.dumps(json.loads(drawn)["traceEvents"]))
    found.extend(("trace.json", text.encode()) for text in texts)
    found.append(("trace.json.gz", gzip.compress(exported.encode(), mtime=0)))
    found.append(("vm.xplane.pb", profile()))
    # Of real programs; tests/data/xplane/record.py says of which.
    recorded = sorted((DATA / "xplane").glob("*.xplane.pb.gz"))
    found.extend(("vm.xplane.pb", gzip.decompress(file.read_bytes())) for file in recorded)
    return tuple(found)


_NUMBERS = (
    b"NaN", b"-1", b"1e999", b"1e18", b"-9223372036854775809", b"null", b'"x"', b"[]", b"{}",
    b"true", b"18446744073709551616", b"0.0000001",
)  # fmt: skip
_SNIPPETS = (
    b"\xff" * 9 + b"\x01", b"\xff" * 11, b"\x80" * 20, b"\xff\xff\xff\xff\x0f", b"\x0b" * 200,
    b"\x0a\xff\xff\xff\xff\x07", b"\x12\x00" * 300, b"\x00" * 64, b"[" * 3000, b'{"a":' * 2000,
    b'"\\ud800"', b'"\\u0000"', b"\xed\xa0\x80", b'"ph":"X","ph":"M",', b'"traceEvents":[',
    b"},{", b"]}", b'"pid":{},', b'"tid":[],', b'"ts":NaN,', b'"dur":-5,', b"\x1f\x8b\x08",
)  # fmt: skip


def mutated(number: int) -> tuple[str, bytes]:
    """The name and content of input `number`."""
    chance = random.Random(number)
    name, content = chance.choice(seeds())
    if name.endswith(".gz") and chance.random() < 0.7:
        return name, gzip.compress(broken(gzip.decompress(content), chance), 1, mtime=0)
    if "tfevents" in name and chance.random() < 0.7:
        return name, _reframed(content, chance)
    return name, broken(content, chance)


def broken(data: bytes, chance: random.Random) -> bytes:
    """The bytes with some damage."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        data = chance.choice(_WAYS)(data, chance)
    return data


def _reframed(content: bytes, chance: random.Random) -> bytes:
    """Break what is inside the records, with checksums that are right again."""
    records, at = [], 0
    while at < len(content):
        length = int.from_bytes(content[at : at + 8], "little")
        records.append(content[at + 12 : at + 12 + length])
        at += 16 + length
    victim = chance.randrange(len(records))
    records[victim] = broken(records[victim], chance)
    return b"".join(map(frame, records))


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 2, 5, 20))):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, chance: random.Random) -> bytes:
    at, snippet = chance.randrange(len(data) + 1), chance.choice(_SNIPPETS)
    return data[:at] + snippet + data[at + len(snippet) :]


def _insert(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    snippet = chance.choice((*_SNIPPETS, chance.randbytes(chance.randrange(1, 40))))
    return data[:at] + snippet + data[at:]


def _delete(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + data[at + chance.choice((1, 2, 10, 300)) :]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    piece = data[at : at + chance.choice((1, 8, 100, 2000))]
    return data[:at] + piece * chance.choice((2, 3, 50)) + data[at:]


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _splice(data: bytes, chance: random.Random) -> bytes:
    other = chance.choice(seeds())[1]
    return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other)) :]


def _renumber(data: bytes, chance: random.Random) -> bytes:
    """Another value for a number of a JSON text; in other bytes, for a digit."""
    number = re.compile(rb"\d+").search(data, chance.randrange(len(data) + 1))
    if number is None:
        return _flip(data, chance)
    return data[: number.start()] + chance.choice(_NUMBERS) + data[number.end() :]


_WAYS = (_flip, _flip, _overwrite, _insert, _delete, _repeat, _cut, _splice, _renumber)
