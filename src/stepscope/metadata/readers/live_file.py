"""`*.stepscope-live`: the runs of a process that are not in its store yet, in mapped memory.

`stepscope.store.live_runs` writes it while an embedded program is recorded. It is there after any
death of the process, as far as the process had come, and gone once that ended well.

The file is a sequence of blocks, each a whole number of units (`UNIT`) and begun by a head
(`HEAD`): a mark, what it is, its bytes. Zeros are room for blocks that are not there yet. A *plan*
says what the numbers of a run mean: its layout, the nodes by position (`packing`), the facts they
are rows of (`stored_columns`). A *run* is 64-bit words, by the names below; behind them is, with
the layout

- MARKS, the clock at the end of each position; they end one after the other;
- ROWS, for each position its thread, then for each the clock at its start, then at its end; of one
  that was executed several times, the last.

Guarantees:

- nothing is read while the process lives (it holds a lock), nor changed;
- a run that the store has is not read again; one that had ended is told from one that had not;
- what is damaged is left out.
"""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from stepscope.errors import code_name
from stepscope.metadata.columns import OpColumns
from stepscope.metadata.outcome import Completeness, InFlight, Loss, Status
from stepscope.metadata.program_notes import CallTime
from stepscope.metadata.recording import Recording
from stepscope.metadata.run_metadata import RunMetadata
from stepscope.metadata.stored.packing import Packed, PackedDamageError, pack
from stepscope.metadata.stored.stored_columns import pack_facts, unpack_facts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from stepscope.metadata.graph_facts import GraphFacts

__all__ = ["ENGINES", "SUFFIX", "block_size", "content_of_the_dead", "left_behind", "plan_block"]

SUFFIX: Final = "-live"
"""What the file's name has after that of the store."""
PAGE: Final = 4096
UNIT: Final = 512
"""Small runs share a page: each that is written to for the first time takes microseconds."""
MARK: Final = int.from_bytes(b"SSLive1\0", "little")
HEAD: Final = struct.Struct("<qqq")
PLAN, RUN = 1, 2
MARKS, ROWS = 1, 2
STATE, PLACE, STEP_ID, THREAD, OFFSET, BEGAN, ENDED, CODE, COUNT = range(3, 12)
"""Words of a run: its state, where its plan is, what `Trace` has of it, how it ended, how many
positions there are."""
FIRST: Final = 16
"""The first word after them."""
FREE, UNDER_WAY, OVER = range(3)
_PLAN: Final = struct.Struct("<qqq")
_ENGINE: Final = "embedded"
ENGINES: Final = (_ENGINE,)
"""Whose runs are there."""
_LOST: Final = "it was lost with the process"


def block_size(size: int) -> int:
    """So many bytes in whole pages."""
    return -(-size // PAGE) * PAGE


def plan_block(facts: GraphFacts, nodes: NDArray[Any], layout: int) -> bytes:
    """A plan, whose positions are these nodes of the facts."""
    content, place = pack_facts(facts)
    positions = pack([place[nodes]])
    body = _PLAN.pack(layout, len(positions), len(content)) + positions + content
    size = block_size(HEAD.size + len(body))
    return (HEAD.pack(MARK, PLAN, size) + body).ljust(size, b"\0")


def left_behind(store: Path, known: Collection[int]) -> list[RunMetadata]:
    """The runs beside a store whose process died: those that had ended, by time, then the others.

    `known` are the steps of the runs that the store has. Empty where the process lives, or ended
    well.
    """
    data = content_of_the_dead(Path(f"{store}{SUFFIX}"))
    found = [run for run in _runs(data) if run.step_id not in known]
    found.sort(key=lambda run: (run.state != OVER, run.ended, run.began))
    return [_metadata(run) for run in found]


def content_of_the_dead(path: Path) -> bytes:
    """What a process that is gone has left in a file; empty while it lives, which holds a lock."""
    try:
        import fcntl

        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return file.read()
    except (OSError, ImportError):
        return b""


class _Plan(NamedTuple):
    facts: GraphFacts
    nodes: NDArray[np.int32]
    layout: int


class _Run(NamedTuple):
    plan: _Plan
    words: NDArray[np.int64]

    @property
    def state(self) -> int:
        return int(self.words[STATE])

    @property
    def step_id(self) -> int:
        return int(self.words[STEP_ID])

    @property
    def began(self) -> int:
        return int(self.words[BEGAN])

    @property
    def ended(self) -> int:
        return int(self.words[ENDED])


def _runs(data: bytes) -> Iterator[_Run]:
    blocks = list(_blocks(data))
    plans: dict[int, _Plan] = {}
    for place, kind, block in blocks:
        if kind == PLAN:
            with contextlib.suppress(PackedDamageError, ValueError, IndexError, struct.error):
                plans[place] = _plan(block)
    # Memory that an earlier run had stands before the plan of a later one.
    for _, kind, block in blocks:
        words = np.frombuffer(block, "<i8")
        if kind == RUN and words[STATE] in (UNDER_WAY, OVER):
            plan = plans.get(int(words[PLACE]))
            if plan is not None and len(plan.nodes) == words[COUNT] and _fits(plan, words):
                yield _Run(plan, words)


def _blocks(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Where each block is, what it is, and its bytes."""
    place = 0
    while place + HEAD.size <= len(data):
        mark, kind, size = HEAD.unpack_from(data, place)
        if not mark:
            place += UNIT
            continue
        if mark != MARK or size <= 0 or size % UNIT or place + size > len(data):
            # One that was being added, or damage: nothing after it can be found.
            return
        yield place, kind, data[place : place + size]
        place += size


def _plan(block: bytes) -> _Plan:
    layout, positions, size = _PLAN.unpack_from(block, HEAD.size)
    first = HEAD.size + _PLAN.size
    nodes = Packed(block[first : first + positions]).numbers(np.int32)
    facts = unpack_facts(block[first + positions : first + positions + size])
    if layout not in (MARKS, ROWS) or (
        len(nodes) and not 0 <= nodes.min() <= nodes.max() < len(facts)
    ):
        raise PackedDamageError("a plan of other nodes than those of its graph")
    return _Plan(facts, nodes, layout)


def _fits(plan: _Plan, words: NDArray[np.int64]) -> bool:
    return FIRST + len(plan.nodes) * (1 if plan.layout == MARKS else 3) <= len(words)


def _metadata(run: _Run) -> RunMetadata:
    plan, count = run.plan, len(run.plan.nodes)
    values = run.words[FIRST:]
    if plan.layout == MARKS:
        done = int(np.count_nonzero(values[:count]))
        ended = np.flatnonzero(values[:count])
        end = values[:done]
        start = np.concatenate([[run.began], end])[:done]
        thread = np.full(done, run.words[THREAD])
        begun = run.began and done < count
        in_flight = plan.nodes[done : done + 1] if begun else plan.nodes[:0]
    else:
        threads, starts, ends = (values[n * count : (n + 1) * count] for n in range(3))
        ended = np.flatnonzero(ends)
        ended = ended[np.argsort(starts[ended], kind="stable")]
        start, end, thread = starts[ended], ends[ended], threads[ended]
        in_flight = plan.nodes[(starts != 0) & (ends == 0)]
    names = plan.facts.names.values
    ops = OpColumns.over(
        plan.facts,
        node=plan.nodes[ended],
        thread=thread,
        scheduled_ns=start + run.words[OFFSET],
        start_ns=start + run.words[OFFSET],
        end_ns=end + run.words[OFFSET],
        step=run.step_id,
    )
    metadata = RunMetadata()
    metadata.record(
        Recording(
            engine=_ENGINE,
            step_id=run.step_id,
            status=_status(run, [str(names[node]) for node in in_flight]),
            completeness=Completeness(tuple(_losses(run, count - len(ended)))),
            ops=lambda: ops,
            call=_call(run, int(end.max()) if len(end) else run.began),
        )
    )
    return metadata


def _call(run: _Run, last: int) -> CallTime | None:
    """When it was under way, up to its end or else to that of its last op."""
    if not run.began:
        return None
    offset = int(run.words[OFFSET])
    return CallTime(run.began + offset, (run.ended or last) + offset, int(run.words[THREAD]))


def _status(run: _Run, in_flight: list[str]) -> Status:
    if run.state == UNDER_WAY:
        return Status(
            "ABORTED",
            "The process died while this run was under way",
            tuple(InFlight(name) for name in in_flight),
        )
    code = int(run.words[CODE])
    return Status() if code == 0 else Status(code_name(code), "what it said was lost")


def _losses(run: _Run, missing: int) -> Iterator[Loss]:
    if run.state == UNDER_WAY:
        if missing:
            reason = f"they had not ended when the process died; if one had, {_LOST}"
            yield Loss("node executions", missing, reason)
        yield Loss("the rest of the run", 0, _LOST)
    elif missing and int(run.words[CODE]):
        yield Loss("node executions", missing, "the run failed before they were done")
    if run.plan.layout == ROWS:
        yield Loss("earlier iterations of loops", 0, _LOST)
    yield Loss(
        "memory, shapes of this run, annotations",
        0,
        f"the process died before the run was in the store: {_LOST}",
    )
