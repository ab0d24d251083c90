"""`*.stepscope-log`: the runs on TensorFlow that a process had not stored when it died.

The adapter's executor writes it while a script is recorded (`node_log/mapped_logs.py`), and in
`-log.graphs` beside it the facts of the graphs that its records name. A run is there from its
beginning until the store has it.

Guarantees.
- Whatever ended the process (`kill -9`, a crash, `os._exit`), every run that had ended is found,
  and of one under way every execution that had ended, and those that had begun on each thread.
- Nothing is read while the process lives (it holds a lock), nor is anything changed. Reading needs
  neither TensorFlow nor the library. A file that is damaged gives what is whole in it, or nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.metadata.columns import OpColumns
from stepscope.metadata.graph_facts import GraphFacts
from stepscope.metadata.logged_nodes import ENDED, FAILED, ROW, STARTED, ended, nodes_of
from stepscope.metadata.outcome import Completeness, InFlight, Loss, Status
from stepscope.metadata.readers.live_file import content_of_the_dead
from stepscope.metadata.recording import Recording
from stepscope.metadata.run_metadata import RunMetadata
from stepscope.metadata.strings import StringColumn

__all__ = ["ENGINES", "GRAPHS", "SUFFIX", "graph_facts", "left_behind"]

SUFFIX: Final = "-log"
"""What the file's name has after that of the store."""
GRAPHS: Final = ".graphs"
"""And that of the facts after it."""
_ENGINE: Final = "tensorflow"
ENGINES: Final = ("tensorflow session", "tensorflow function")
"""Whose runs are there; the file does not say which."""
_MAGIC: Final = b"stepslog"
_VERSION: Final = 2
_HEADER: Final = struct.Struct("8s19qd")
_CHUNK: Final = struct.Struct("QqqQQiI16si")
_RUN: Final = struct.Struct("Q4q88s")
_GRAPH: Final = struct.Struct("2q")
_CUT: Final = Loss(
    "op executions",
    0,
    "the process ended while the run was under way: what had begun by then and not ended is in "
    "status.in_flight, and what came after it was not executed",
)
_NO_OUTPUTS: Final = Loss(
    "shapes of outputs, source lines, memory",
    0,
    "the process that knew them ended before the run was in the store",
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
    runs_at: int
    run_bytes: int
    runs: int
    scheduled_at: int
    start_at: int
    end_at: int
    graph_at: int
    node_at: int
    output_at: int
    state_at: int
    even_counter: int
    ns_per_tick: float


@dataclass
class _Run:
    """What there is of one run."""

    step_id: int
    began_ns: int
    ended_ns: int
    failed: bool
    what: str
    rows: list[NDArray[Any]] = field(default_factory=list)
    """As `ROW`, of each thread."""
    thread_names: dict[int, str] = field(default_factory=dict)


def left_behind(store: Path, known: Collection[int]) -> list[tuple[str, RunMetadata]]:
    """The runs beside a store whose process died: those that had ended, by time, then the others.

    Each comes with what ran. `known` are the steps of the runs that the store has. Empty where the
    process lives, or ended well.
    """
    path = Path(f"{store}{SUFFIX}")
    content = content_of_the_dead(path)
    if len(content) < _HEADER.size:
        return []
    header = _Header(*_HEADER.unpack_from(content))
    odd = header.chunk_bytes < _CHUNK.size or header.run_bytes < _RUN.size
    if header.magic != _MAGIC or header.version != _VERSION or odd:
        return []
    facts = _facts(Path(f"{path}{GRAPHS}"))
    found = [run for run in _runs(content, header) if run.step_id not in known]
    found.sort(key=lambda run: (not run.ended_ns, run.ended_ns, run.began_ns))
    return [(run.what, _metadata(run, header.process, facts)) for run in found]


def _runs(content: bytes, header: _Header) -> list[_Run]:
    found: dict[int, _Run] = {}
    for number in range(header.runs):
        place = header.runs_at + number * header.run_bytes
        if place + header.run_bytes > len(content):
            break
        log, step_id, began_ns, ended_ns, failed, what = _RUN.unpack_from(content, place)
        if log:
            text = what.partition(b"\0")[0].decode(errors="replace")
            found[log] = _Run(step_id, began_ns, ended_ns, bool(failed), text)
    for log, thread, name, rows in _chunks(content, header):
        run = found.get(log)
        if run is not None:
            run.rows.append(rows)
            run.thread_names[thread] = name
    return list(found.values())


def _chunks(content: bytes, header: _Header) -> Iterator[tuple[int, int, str, NDArray[Any]]]:
    """The number of its log, a thread and its name, and the rows that it wrote."""
    record = np.dtype(
        {
            "names": ["scheduled", "start", "end", "graph", "node", "state"],
            "formats": ["i8", "i8", "i8", "u4", "u4", "i4"],
            "offsets": [
                header.scheduled_at,
                header.start_at,
                header.end_at,
                header.graph_at,
                header.node_at,
                header.state_at,
            ],
            "itemsize": header.record_bytes,
        }
    )
    for place in range(header.header_bytes, len(content), header.chunk_bytes):
        if place + header.chunk_bytes > len(content):
            return
        log, began_ticks, began_ns, _, _, thread, _, name, used = _CHUNK.unpack_from(content, place)
        if not log or not 0 <= used <= header.records:
            continue
        records = np.frombuffer(content, record, used, place + header.records_at)
        records = records[(records["state"] >= STARTED) & (records["state"] <= FAILED)]
        rows = np.zeros(len(records), ROW)
        for column in record.names or ():
            rows[column] = records[column]
        rows["thread"] = thread
        if header.even_counter:
            for column in ("start", "end"):
                past = (rows[column] - began_ticks) * header.ns_per_tick
                rows[column] = np.where(rows[column] == 0, 0, began_ns + past.astype(np.int64))
        yield log, thread, name.partition(b"\0")[0].decode(errors="replace"), rows


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


def _metadata(run: _Run, process: int, known: dict[int, GraphFacts]) -> RunMetadata:
    rows = np.concatenate([np.zeros(0, ROW), *run.rows])
    numbers = np.array(sorted(known), np.uint32)
    sure = np.isin(rows["graph"], numbers)
    unsure = int(np.count_nonzero(~sure))
    rows = rows[sure]
    rows = rows[np.lexsort((rows["end"], rows["start"]))]
    ops, names = OpColumns.empty(), np.empty(0, object)
    if known:
        facts = GraphFacts.concat([known[number] for number in numbers.tolist()])
        lengths = np.array([len(known[number]) for number in numbers.tolist()])
        done = ended(rows, failed=run.failed)
        start, scheduled = rows["start"][done], rows["scheduled"][done]
        ops = OpColumns.over(
            facts,
            node=nodes_of(numbers, lengths, rows[done]),
            thread=rows["thread"][done],
            scheduled_ns=np.where((scheduled == 0) | (scheduled > start), start, scheduled),
            start_ns=start,
            end_ns=np.maximum(start, rows["end"][done]),
            step=run.step_id,
            thread_names=run.thread_names,
        )
        going = rows[(rows["state"] == STARTED) | (rows["state"] == ENDED)]
        names = facts.names.values[nodes_of(numbers, lengths, going)]
    losses = [_NO_OUTPUTS] if run.ended_ns else [_CUT, _NO_OUTPUTS]
    if unsure:
        losses.append(Loss("names of ops", unsure, _NO_FACTS))
    metadata = RunMetadata()
    metadata.record(
        Recording(
            engine=_ENGINE,
            recorder="executor",
            step_id=run.step_id,
            status=_status(run, process, names.tolist()),
            completeness=Completeness(tuple(losses)),
            ops=lambda: ops,
        )
    )
    return metadata


def _status(run: _Run, process: int, in_flight: list[str]) -> Status:
    if not run.ended_ns:
        why = f"process {process} ended while the run was under way"
        return Status("ABORTED", why, tuple(InFlight(name) for name in in_flight))
    return Status("UNKNOWN", "what it said was lost with the process") if run.failed else Status()
