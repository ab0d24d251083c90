"""A recorded program with times that are known: what `stepscope run` would have written of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stepscope.metadata import CallTime, Note, OpColumns, Overhead, Recording, RunMetadata
from stepscope.metadata.program_notes import (
    COST,
    IMPORT,
    INPUT,
    PROCESS,
    RECORDING,
    SCRIPT,
    TRACE,
)
from stepscope.store import Store

MS = 1_000_000
START = 1_700_000_000_000_000_000
MAIN, OTHER = 42, 43


def note(
    kind: str, started: float, ended: float, what: str = "", where: str = "", **details: Any
) -> Note:  # fmt: skip
    """One of the main thread, in milliseconds since the program began."""
    thread = details.pop("thread", MAIN)
    return Note(kind, at(started), at(ended), thread, what, where, details)


def at(ms: float) -> int:
    """That many milliseconds after the program began."""
    return START + round(ms * MS)


def trace(
    started: float, ended: float, what: str, arguments: list[list[str]], *, function: int = 1,
    where: str = "train.py:30", **details: Any,
) -> Note:  # fmt: skip
    """The building of a graph for these arguments."""
    known = {
        "defined": "train.py:10", "own": True, "function": function, "arguments": arguments,
        "nodes": 24, "grew_bytes": 4096, "creates_variables": True, "inside": False,
        "failed": False,
    }  # fmt: skip
    return note(TRACE, started, ended, what, where, **(known | details))


def run(
    started: float, ended: float, ops: list[tuple[str, float, float]], *, thread: int = MAIN,
    engine: str = "tensorflow function", overhead_ns: int = 0, called: bool = True,
) -> RunMetadata:  # fmt: skip
    """A run called at that time; ops are by type, ready 0.5 ms before they started."""
    columns = OpColumns.build(
        name=[f"{op}_{place}" for place, (op, _, _) in enumerate(ops)],
        op=[op for op, _, _ in ops],
        device=["/device:CPU:0"] * len(ops),
        thread=[thread] * len(ops),
        scheduled_ns=[at(began - 0.5) for _, began, _ in ops],
        start_ns=[at(began) for _, began, _ in ops],
        end_ns=[at(over) for _, _, over in ops],
    )
    metadata = RunMetadata()
    metadata.record(
        Recording(
            engine=engine, ops=lambda: columns, overhead=Overhead(overhead_ns, 0.0),
            call=CallTime(at(started), at(ended), thread) if called else None,
        )
    )  # fmt: skip
    return metadata


def keras_like(folder: Path, *, ended: bool = True) -> Path:
    """A program of a second: imports, a traced first step, two more, Python, and our recording."""
    with Store(folder) as store:
        store.note(Note(PROCESS, START, 0, MAIN, "train.py"))
        for one in (
            note(RECORDING, 0, 50, "starting"),
            note(IMPORT, 60, 360, "tensorflow", "train.py:1"),
            note(RECORDING, 350, 360, "making TensorFlow ready"),
            note(IMPORT, 500, 520, "gast", "train.py:30"),
            trace(420, 440, "inner", [["tensor", "v", "float32", "[]"]], function=9, inside=True,
                  defined="layers.py:5"),
            trace(410, 560, "train_step", [
                ["tensor", "x", "float32", "[32, 64]"], ["value", "scale", "int", "0"]]),
            trace(700, 740, "train_step", [
                ["tensor", "x", "float32", "[17, 64]"], ["value", "scale", "int", "0"]]),
        ):  # fmt: skip
            store.note(one)
        store.add(run(400, 600, [("MatMul", 570, 590)]), "train_step")
        store.add(
            run(
                610, 650, [("IteratorGetNext", 611, 631), ("MatMul", 626, 641), ("_Recv", 640, 644)]
            ),
            "train_step",
        )
        store.add(run(660, 680, [("PyFunc", 661, 676)], thread=OTHER), "train_step")
        store.add(run(690, 750, [("MatMul", 741, 749)]), "train_step")
        store.add(run(760, 780, [("MatMul", 761, 771), ("EagerPyFunc", 773, 777)]), "train_step")
        if ended:
            store.note(note(SCRIPT, 55, 900, "train.py"))
            costs = {
                "around_ns": 15 * MS,
                "before_ns": 10 * MS,
                "inside_ns": 2 * MS,
                "input_ns": 3 * MS,
            }
            store.note(note(COST, 0, 900, **costs))
            store.note(note(RECORDING, 920, 1000, "writing and reporting"))
            store.note(note(PROCESS, 0, 1000, "train.py"))
        else:
            store.note(Note(SCRIPT, at(55), 0, MAIN, "train.py"))
    return store.path


def a_stage(kind: str, name: str, inputs: list[int], line: str, **known: Any) -> dict[str, Any]:
    return {
        "kind": kind, "name": name, "inputs": inputs, "line": line, "function": "",
        "defined": "", "python": False, "bytes": 0, "parallelism": 0, "buffer": 0,
        "tuned": False, "nested": False, "ratio": 1.0,
    } | known  # fmt: skip


def slow_map(
    *, calls: int = 0, own_ms: float = 20.0, period_ms: float = 24.0, cpu_ms: float = 6.0,
    elements: int = 20, number: int = 0, **of_map: object,
) -> Note:  # fmt: skip
    """The note of a dataset whose `map` takes 20 ms of own time for each element."""
    name = "ParallelMapV2" if calls else "Map"
    stages = [
        a_stage("", "Root", [1], ""),
        a_stage("batch", "BatchV2", [2], "input.py:7", ratio=32.0),
        a_stage("map", name, [3], "input.py:6", function="decode", defined="input.py:2",
                parallelism=calls, **of_map),
        a_stage("range", "Range", [], "input.py:5"),
    ]  # fmt: skip
    rows = range(1, elements + 1)
    return note(
        INPUT, 100, 100 + period_ms * elements, "tf.data", "train.py:9",
        pipeline=number, taken_by={"train_step": elements}, waited_ns=0, cores=4, stages=stages,
        moments=[at(100 + period_ms * row) for row in rows],
        elements=[[row, row, 32 * row, 32 * row] for row in rows],
        own_ns=[[0, MS * row, round(own_ms * MS) * row, 1000 * row] for row in rows],
        buffered=[[0, 0, 2, 0]] * elements,
        cpu_ns=[round(cpu_ms * MS) * row for row in rows],
    )  # fmt: skip


def waiting_for_input(
    folder: Path, *notes: Note, wait_ms: float = 21.0, period_ms: float = 24.0, elements: int = 20
) -> Path:
    """A program whose train_step waits for elements that long."""
    with Store(folder) as store:
        store.note(Note(PROCESS, START, 0, MAIN, "train.py"))
        for one in notes:
            store.note(one)
        for step in range(elements):
            began = 101 + period_ms * step
            taken = began + wait_ms
            ops = [("IteratorGetNext", began, taken), ("MatMul", taken, taken + 1)]
            store.add(run(began - 0.5, taken + 1.5, ops), "train_step")
    return store.path
