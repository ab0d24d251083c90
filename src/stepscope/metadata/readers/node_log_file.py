"""`node_log-<process>.map`: the runs that were under way on TensorFlow when their process died.

The adapter's executor writes it while a script is recorded (`node_log/mapped_logs.py`), and in
`.map.graphs` beside it the facts of the graphs that its records name. Runs that ended are not
there: they were handed over, and their memory is used again.

Guarantees.
- Whatever ended the process (`kill -9`, a crash, `os._exit`), every execution of a run under way
  that had ended is found, and those that had begun on each thread.
- Reading needs neither TensorFlow nor the library, and changes nothing. A file that is damaged
  gives what is whole in it, or nothing.
"""

from __future__ import annotations

import contextlib
import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from stepscope.metadata.columns import OpColumns
from stepscope.metadata.graph_facts import GraphFacts
from stepscope.metadata.outcome import Completeness, InFlight, Loss, Status
from stepscope.metadata.recording import Recording
from stepscope.metadata.run_metadata import RunMetadata
from stepscope.metadata.strings import StringColumn

__all__ = ["GRAPHS", "graph_facts", "mapped_files", "read_left_behind"]

ENGINE: Final = "tensorflow"
_FILE: Final = re.compile(r"node_log-(\d+)\.map")
GRAPHS: Final = ".graphs"
"""What the name of the file with the facts has after that of the records."""
_MAGIC: Final = b"stepslog"
_HEADER: Final = struct.Struct("8s16qd")
_CHUNK: Final = struct.Struct("QqqQQiI16si")
_GRAPH: Final = struct.Struct("2q")
_STARTED, _ENDED, _DONE, _FAILED = 1, 2, 3, 4
_CUT: Final = Loss(
    "op executions", 0,
    "the process ended while the run was under way: what had begun by then and not ended is in "
    "status.in_flight, and what came after it was not executed",
)  # fmt: skip
_NO_OUTPUTS: Final = Loss(
    "shapes of outputs, source lines", 0, "the process that knew them ended before the run did"
)
_NO_FACTS: Final = "the file with what is known of their graph does not have it"


class _Header(NamedTuple):
    magic: bytes
    version: int
    process: int
    header_bytes: int
    chunk_bytes: int
    records_at: int
    record_bytes: int
    records: int
    chunks: int
    scheduled_at: int
    start_at: int
    end_at: int
    graph_at: int
    node_at: int
    output_at: int
    state_at: int
    even_counter: int
    ns_per_tick: float


class _Part(NamedTuple):
    """What one thread did in one run."""

    began_ns: int
    rows: Any
    thread: int
    thread_name: str


def read_left_behind(path: str | Path) -> list[RunMetadata]:
    """The runs that were under way when processes died that recorded into this directory.

    `path` may be one such file as well. Runs come in the order in which they began; files of a
    process that is still there are read, too, as they are now.
    """
    place = Path(path)
    files = [place] if place.is_file() else [found for found, _ in mapped_files(place)]
    return [run for file in sorted(files) for run in _runs(file)]


def mapped_files(directory: Path) -> Iterator[tuple[Path, int]]:
    """Such files in a directory, with the numbers of their processes."""
    with contextlib.suppress(OSError):
        for path in directory.iterdir():
            match = _FILE.fullmatch(path.name)
            if match is not None:
                yield path, int(match[1])


def _runs(path: Path) -> Iterator[RunMetadata]:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            content = bytes(data)
    except (OSError, ValueError):  # a file without content cannot be mapped
        return
    if len(content) < _HEADER.size:
        return
    header = _Header(*_HEADER.unpack_from(content))
    if header.magic != _MAGIC or header.version != 1 or header.chunk_bytes < _CHUNK.size:
        return
    parts: dict[int, list[_Part]] = {}
    for number, part in _parts(content, header):
        parts.setdefault(number, []).append(part)
    facts = _facts(path.with_name(path.name + GRAPHS))
    for _, run in sorted(parts.items()):
        yield _run(header, run, facts)


def _parts(content: bytes, header: _Header) -> Iterator[tuple[int, _Part]]:
    """By the number of the log, what each thread wrote to it."""
    row = np.dtype(
        {
            "names": ["scheduled", "start", "end", "graph", "node", "state"],
            "formats": ["i8", "i8", "i8", "u4", "u4", "i4"],
            "offsets": [
                header.scheduled_at, header.start_at, header.end_at, header.graph_at,
                header.node_at, header.state_at,
            ],
            "itemsize": header.record_bytes,
        }
    )  # fmt: skip
    for place in range(header.header_bytes, len(content), header.chunk_bytes):
        if place + header.chunk_bytes > len(content):
            return
        number, began_ticks, began_ns, _, _, thread, _, name, used = _CHUNK.unpack_from(
            content, place
        )
        if not number or not 0 <= used <= header.records:
            continue
        rows = np.frombuffer(content, row, used, place + header.records_at)
        rows = rows[np.isin(rows["state"], (_STARTED, _ENDED, _DONE, _FAILED))].copy()
        if header.even_counter:
            for column in ("start", "end"):
                past = (rows[column] - began_ticks) * header.ns_per_tick
                rows[column] = np.where(rows[column] == 0, 0, began_ns + past.astype(np.int64))
        text = name.partition(b"\0")[0].decode(errors="replace")
        yield number, _Part(began_ns, rows, thread, text)


def _facts(path: Path) -> dict[int, GraphFacts]:
    """By number, the graphs whose facts are whole in the file."""
    try:
        content = path.read_bytes()
    except OSError:
        return {}
    found: dict[int, GraphFacts] = {}
    place = 0
    while place + _GRAPH.size <= len(content):
        number, size = _GRAPH.unpack_from(content, place)
        place += _GRAPH.size
        if size < 0 or place + size > len(content):
            break
        found[number] = graph_facts(content[place : place + size].decode(errors="replace"))
        place += size
    return found


def graph_facts(text: str) -> GraphFacts:
    """The facts of a graph as `native/node_log.cc` writes them."""
    device, *lines = text.split("\n")
    nodes = [line.split("\t") for line in lines]
    return GraphFacts.build(
        name=[node[0] for node in nodes],
        op=[node[1] for node in nodes],
        device=StringColumn.repeated(device, len(nodes)),
        label=[f"{name} = {op}({', '.join(inputs.split())})" for name, op, _, inputs in nodes],
    )


def _run(header: _Header, parts: list[_Part], known: dict[int, GraphFacts]) -> RunMetadata:
    rows = np.concatenate([part.rows for part in parts])
    thread = np.concatenate([np.full(len(part.rows), part.thread) for part in parts])
    numbers = sorted(known)
    sure = np.isin(rows["graph"], numbers)
    unsure = int(np.count_nonzero(~sure))
    rows, thread = rows[sure], thread[sure]
    order = np.lexsort((rows["end"], rows["start"]))
    rows, thread = rows[order], thread[order]
    facts = GraphFacts.concat([known[number] for number in numbers]) if numbers else None
    firsts = np.cumsum([0, *(len(known[number]) for number in numbers)])
    node = (firsts[np.searchsorted(numbers, rows["graph"])] + rows["node"]).astype(np.int32)
    ended = rows["state"] != _STARTED
    in_flight = facts.names.values[node[~ended]].tolist() if facts is not None else []
    start, scheduled = rows["start"][ended], rows["scheduled"][ended]
    columns = OpColumns.empty() if facts is None else OpColumns.over(
        facts, node=node[ended], thread=thread[ended],
        scheduled_ns=np.where((scheduled == 0) | (scheduled > start), start, scheduled),
        start_ns=start, end_ns=np.maximum(start, rows["end"][ended]),
        thread_names={part.thread: part.thread_name for part in parts},
    )  # fmt: skip
    losses = [_CUT, _NO_OUTPUTS]
    if unsure:
        losses.append(Loss("names of ops", unsure, _NO_FACTS))
    metadata = RunMetadata()
    metadata.record(
        Recording(
            engine=ENGINE,
            status=Status(
                "ABORTED", f"process {header.process} ended while the run was under way",
                tuple(InFlight(name) for name in in_flight),
            ),
            completeness=Completeness(tuple(losses)),
            ops=lambda: columns,
        )
    )  # fmt: skip
    return metadata
