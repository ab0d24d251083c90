"""Which functions TensorFlow traced again, by what arguments, and what that cost.

TensorFlow builds a graph of a `tf.function` for each combination of arguments that it tells apart:
tensors by type and shape, Python's values by being equal, other objects by being the same one. A
function that is made anew has no graph at all. So each graph after the first has a cause, which is
found by comparing what it is for with what the graphs before it are for: with the one that differs
least.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from stepscope.analysis.program.account import one_program
from stepscope.analysis.result import Result, made_of
from stepscope.metadata import Note, Program
from stepscope.metadata.program_notes import TRACE

__all__ = ["Retrace", "Retraces", "retraces"]

_SHAPE, _TYPE, _VALUE, _OBJECT = "shape", "type", "value", "new object"
_STRUCTURE, _FUNCTION, _SAME = "structure", "new function", "same arguments"
_VALUES_SHOWN: Final = 5
_LIBRARY_TIMES: Final = 3
"""A library makes functions anew for each dataset: so often from one line it is done in a loop."""


@dataclass(frozen=True, slots=True)
class Retrace:
    """A function that was traced again, for one cause.

    `function` was called at `where` and is written at `defined`. `cause` is what changed ("shape",
    "type", "value", "new object", "structure", "new function", "same arguments") and `argument`
    whose, `values` what it was at first and then, as far as they are shown. It was traced `times`
    times more than once, which took `lost_ns`; the graphs have `nodes`, and the process grew by
    `grew_bytes` meanwhile. `advice` is what to do about it.
    """

    function: str
    defined: str
    where: str
    cause: str
    argument: str
    values: tuple[str, ...]
    times: int
    lost_ns: int
    nodes: int
    grew_bytes: int
    advice: str


@dataclass(frozen=True, slots=True)
class Retraces(Result):
    """`rows` are in order of the time lost. `traces` is how many graphs were built in all, in
    `trace_ns`, and `lost_ns` of that was lost to functions that had a graph already.
    """

    rows: tuple[Retrace, ...]
    program: str
    traces: int
    trace_ns: int
    lost_ns: int


class _Leaf(NamedTuple):
    """One value of the arguments, as it was noted."""

    kind: str
    path: str
    type: str
    text: str

    def __str__(self) -> str:
        if self.kind == "tensor":
            return f"{self.type}{self.text.replace(' ', '')}"
        return self.text if self.kind in ("value", "object") else f"{self.type}: {self.text}"


class _Change(NamedTuple):
    """What a graph is for that an earlier one is not."""

    cause: str
    argument: str
    before: str
    after: str


def retraces(source: str | os.PathLike[str] | Program) -> Retraces:
    """The functions that the program recorded at a path had traced again.

    `UnreadableFileError` where the record has no program in it, which says how to record one.
    """
    program = one_program(source)
    built = [note for note in program.of(TRACE) if not note.details.get("failed")]
    rows: list[Retrace] = []
    again: list[Note] = []
    for traces in _by_definition(built):
        found = _again(traces)
        again += [note for notes in found.values() for note, _ in notes]
        rows += [_row(changes) for changes in found.values()]
    rows.sort(key=lambda row: -row.lost_ns)
    name = program.notes[0].what if program.notes else str(program.path)
    return made_of(
        Retraces(tuple(rows), name, len(built), _union_ns(built), _union_ns(again)), source
    )


def _by_definition(notes: Iterable[Note]) -> list[list[Note]]:
    """The graphs of each function; one made anew each time is the same by where it is written."""
    groups: defaultdict[tuple[str, str], list[Note]] = defaultdict(list)
    for note in notes:
        groups[str(note.details.get("defined", "")), note.what].append(note)
    return list(groups.values())


def _again(
    traces: Sequence[Note],
) -> dict[tuple[str, str], list[tuple[Note, _Change]]]:
    """The graphs after the first, by what changed and whose it is."""
    found: defaultdict[tuple[str, str], list[tuple[Note, _Change]]] = defaultdict(list)
    known: defaultdict[Any, list[Note]] = defaultdict(list)
    made_anew: defaultdict[str, list[tuple[Note, _Change]]] = defaultdict(list)
    for note in traces:
        function = note.details.get("function")
        earlier = known[function]
        if not earlier:
            if any(note.where == other.where for notes in known.values() for other in notes):
                made_anew[note.where].append((note, _Change(_FUNCTION, "", "", "")))
        elif not _completes(note, earlier):
            change = _least_change(note, earlier)
            found[change.cause, change.argument].append((note, change))
        earlier.append(note)
    own = bool(traces[0].details.get("own"))
    for where, notes in made_anew.items():
        if own or len(notes) >= _LIBRARY_TIMES:
            found[_FUNCTION, where] = notes
    return found


def _completes(note: Note, earlier: Sequence[Note]) -> bool:
    """Whether it is the second graph that TensorFlow builds of a function that makes variables."""
    last = earlier[-1]
    return (
        bool(last.details.get("creates_variables"))
        and not note.details.get("creates_variables")
        and all(other.details.get("creates_variables") for other in earlier)
        and _leaves(note) == _leaves(last)
    )


def _leaves(note: Note) -> dict[str, _Leaf]:
    found = (_Leaf(*map(str, leaf)) for leaf in note.details.get("arguments", ()))
    return {leaf.path: leaf for leaf in found}


def _least_change(note: Note, earlier: Sequence[Note]) -> _Change:
    """What changed since the graph that differs least from it, of those the latest."""
    now = _leaves(note)
    changes = [_changes(_leaves(other), now) for other in reversed(earlier)]
    least = min(changes, key=len)
    if not least:
        return _Change(_SAME, "", "", "")
    return least[0]


def _changes(before: Mapping[str, _Leaf], now: Mapping[str, _Leaf]) -> list[_Change]:
    if before.keys() != now.keys():
        gone = ", ".join(path for path in before if path not in now) or "nothing"
        new = ", ".join(path for path in now if path not in before) or "nothing"
        argument = _common(before.keys() ^ now.keys())
        # It differs in more than any two of one structure.
        return [_Change(_STRUCTURE, argument, gone, new)] * (1 + len(before) + len(now))
    found = [
        _Change(_cause(old, now[path]), path, str(old), str(now[path]))
        for path, old in before.items()
        if old != now[path]
    ]
    # What looks alike is another object, or TensorFlow would have had a graph.
    return found or [
        _Change(_OBJECT, path, str(leaf), f"another {leaf}")
        for path, leaf in before.items()
        if leaf.kind == "object"
    ]


def _cause(old: _Leaf, new: _Leaf) -> str:
    if old.kind != new.kind or old.type != new.type:
        return _TYPE
    if old.kind == "tensor":
        return _SHAPE
    return _VALUE if old.kind == "value" else _OBJECT if old.kind == "object" else _SHAPE


def _common(paths: Iterable[str]) -> str:
    """The argument that these values lie in."""
    return next(iter(sorted({path.partition("[")[0] for path in paths})), "")


# -- rows --------------------------------------------------------------------------------------


def _row(changes: Sequence[tuple[Note, _Change]]) -> Retrace:
    first, change = changes[0]
    values = list(dict.fromkeys([change.before, *(one.after for _, one in changes)]))
    return Retrace(
        function=first.what,
        defined=str(first.details.get("defined", "")),
        where=first.where,
        cause=change.cause,
        argument=change.argument,
        values=tuple(value for value in values[:_VALUES_SHOWN] if value),
        times=len(changes),
        lost_ns=_union_ns([note for note, _ in changes]),
        nodes=sum(int(note.details.get("nodes", 0)) for note, _ in changes),
        grew_bytes=sum(int(note.details.get("grew_bytes", 0)) for note, _ in changes),
        advice=_advice(first, change, single=len(values) == 2),
    )


def _advice(note: Note, change: _Change, *, single: bool) -> str:
    """What to do; `single` is where there was one value after the first."""
    name = change.argument
    if change.cause == _FUNCTION:
        if note.details.get("own"):
            return "make the function once, outside of the loop or the call that makes it anew"
        return "the line makes a dataset or a model anew each time: make it once, and use it again"
    if change.cause == _SHAPE and not note.details.get("own"):
        return "call it with batches of one size: a library's function gets a graph for each shape"
    if change.cause == _SHAPE:
        if single and _is_last_batch(change):
            return "a last batch is smaller: batch(drop_remainder=True), or reduce_retracing=True"
        return (
            "tf.function(reduce_retracing=True), or an input_signature with None for what changes"
        )
    if change.cause == _VALUE:
        if _is_number(change.after):
            return f"pass {name} as a tensor (tf.constant): each number gets a graph of its own"
        return f"call it with few different values of {name}, or make it a tensor"
    if change.cause == _OBJECT:
        return f"pass the same object for {name} each time: make it once"
    if change.cause == _TYPE:
        return f"convert {name} to one type before the call (tf.cast, tf.convert_to_tensor)"
    if change.cause == _STRUCTURE:
        return f"give {name} the same structure in each call"
    return "it was called under another device, strategy or graph: call it under one of them alone"


def _is_last_batch(change: _Change) -> bool:
    """Whether only the first dimension is another, and smaller."""
    before, after = (_dimensions(text) for text in (change.before, change.after))
    if not before or len(before) != len(after) or before[1:] != after[1:]:
        return False
    return after[0].isdecimal() and before[0].isdecimal() and int(after[0]) < int(before[0])


def _dimensions(text: str) -> list[str]:
    inside = text.partition("[")[2].rstrip("]")
    return inside.split(",") if inside else []


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _union_ns(notes: Sequence[Note]) -> int:
    """How long any of them was under way: one may lie inside of another, or beside it."""
    total = reach = 0
    for note in sorted(notes, key=lambda note: note.started_ns):
        total += max(0, note.ended_ns - max(reach, note.started_ns))
        reach = max(reach, note.ended_ns)
    return total
