"""`stepscope advise`: what it predicts against what is achieved, and replays against their runs.

Each program of `tests/planted` is recorded as it is and mended, and `advise --check` compares what
its finding predicted with what came of it, as a user would. Recorded runs are replayed without any
change, against how long they took. `STEPSCOPE_PLANTED` may name some of the programs, with commas
between.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import Result, at_least, at_most
from stepscope.analysis.replay import replay
from stepscope.metadata import iter_runs

PROGRAMS = Path(__file__).parents[1] / "tests" / "planted"
RUNS = 20
INSIDE, ERROR, REPLAY = 0.9, 0.15, 0.05
EMBEDDED, TENSORFLOW = "embedded", "tensorflow"


class Planted(NamedTuple):
    """A program with a mistake, the rule that finds it, and what recording it takes."""

    program: str
    engine: str
    rule: str
    options: tuple[str, ...] = ()


PLANTED = (
    Planted("slow_map", TENSORFLOW, "input-bound"),
    Planted("small_batch", EMBEDDED, "tiny-ops"),
    Planted("python_op", EMBEDDED, "python-op"),
    Planted("retraced_by_number", TENSORFLOW, "retracing"),
    Planted("retraced_by_shape", TENSORFLOW, "retracing"),
    Planted("retraced_by_lambda", TENSORFLOW, "retracing"),
    Planted("fed_constant", EMBEDDED, "fed-constant"),
    Planted("summary_each_step", EMBEDDED, "summaries"),
    Planted("ping_pong", TENSORFLOW, "wrong-device"),
    Planted("serial_chain", EMBEDDED, "serial-path"),
    Planted("copies", EMBEDDED, "copies"),
    Planted("leak", TENSORFLOW, "leak", ("--memory",)),
)
REPLAYED = (
    ("1 thread", "clean", EMBEDDED, ()),
    ("2 threads", "serial_chain", EMBEDDED, ("mended",)),
    ("TensorFlow", "clean", TENSORFLOW, ()),
)


def stepscope(*arguments: str, place: Path) -> str:
    """What a command writes to its output."""
    command = [sys.executable, "-m", "stepscope", *arguments]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def record(
    program: str, engine: str, out: Path, *given: str, options: tuple[str, ...] = ()
) -> Path:
    """Record a planted program there."""
    script = str(PROGRAMS / f"{program}.py")
    flags = ("--engine", engine, *options, "--out", str(out))
    stepscope("run", *flags, script, *given, place=out.parent)
    return out


def advice(_tf: Any) -> Iterator[Result]:
    """Predicted against achieved, by program; how many are inside, and by how much they are off."""
    wanted = os.environ.get("STEPSCOPE_PLANTED", "").split(",")
    inside, errors = 0, []
    chosen = [one for one in PLANTED if wanted == [""] or one.program in wanted]
    for one in chosen:
        found = checked(one)
        if found is None:
            errors.append(1.0)
            what = f"advise, {one.program}: no finding of {one.rule}"
            yield Result(what, 0.0, 0.0, 0.0, "inside", False)
            continue
        scale, unit = (1 << 20, "MiB") if one.rule == "leak" else (1e6, "ms")
        predicted, achieved = found["finding"]["gain"] / scale, found["achieved"] / scale
        inside += found["inside"]
        # A change that made it slower has no gain that a prediction is a part of.
        errors.append(found["error"] if achieved > 0 else 1.0)
        low, high = found["finding"]["low"] / scale, found["finding"]["high"] / scale
        yield Result(
            f"advise, {one.program} ({one.engine}): predicted, achieved", predicted, achieved,
            predicted / achieved if achieved else 0.0, "inside", found["inside"], unit,
            f"between {low:.3g} and {high:.3g} {unit}",
        )  # fmt: skip
    share = inside / max(1, len(chosen))
    what = "advise, inside of the predicted interval: programs, of"
    yield Result(what, inside, len(chosen), share, *at_least(INSIDE, share), unit="")
    off = statistics.median(errors)
    what = "advise, median error of the prediction: share"
    yield Result(what, off, 1.0, off, *at_most(ERROR, off), unit="")


def checked(one: Planted) -> dict[str, Any] | None:
    """What `advise --check` says of a program and its mended self; None where nothing was found."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        record(one.program, one.engine, place / "old", options=one.options)
        record(one.program, one.engine, place / "new", "mended", options=one.options)
        names = json.loads(stepscope("advise", "old", "--json", place=place))["rows"]
        if all(row["rule"] != one.rule for row in names):
            return None
        check = ("advise", "--check", one.rule, "old", "new", "--json")
        found: dict[str, Any] = json.loads(stepscope(*check, place=place))
        return found


def replays(_tf: Any) -> Iterator[Result]:
    """Replays of recorded runs against their lengths: the median, and the run that is told worst.

    By its own op times a run is told by the model of the engine, whose error is to be small. What
    the other runs tell of what comes between ops, and of what a call takes around them, is beside
    it: how far runs of that program differ on this machine is no error of the model, and no target.
    """
    for what, program, engine, given in REPLAYED:
        with tempfile.TemporaryDirectory() as made:
            out = record(program, engine, Path(made) / "out", *given)
            runs = [run.metadata for run in iter_runs(out)][-RUNS:]
            rows = replay(runs).rows
        recorded = statistics.median(row.recorded_ns for row in rows) / 1e6
        told = (
            ("by their own op times", [(row.modelled_ns, row.model_error) for row in rows], True),
            ("by the other runs", [(row.replayed_ns, row.error) for row in rows], False),
        )
        for how, found, is_model in told:
            replayed = statistics.median(ns for ns, _ in found) / 1e6
            errors = sorted(error for _, error in found)
            for kind, error in (("median", statistics.median(errors)), ("worst", errors[-1])):
                target, met = at_most(REPLAY, error) if is_model else ("", None)
                yield Result(
                    f"replay of {len(rows)} runs {how}, {what}: replayed, recorded, {kind} error",
                    replayed, recorded, error, target, met,
                )  # fmt: skip


GROUPS = (advice, replays)
