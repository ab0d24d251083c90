"""What the page knows before anything is drawn: how it is about the runs, and which there are."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.errors import UnreadableFileError
from stepscope.metadata import programs
from stepscope.metadata.program_notes import SCRIPT
from stepscope.metadata.readable import file, number, writable
from stepscope.metadata.strings import StringColumn
from stepscope.web.resources.clusters import is_cluster, workers_of

if TYPE_CHECKING:
    from stepscope.web.recordings import Recordings
    from stepscope.web.resources.asked import Asked
    from stepscope.web.survey import RunRow, Survey

__all__ = ["NO_MEMORY", "changes", "runs", "session", "typical"]

_MOST_RUNS: Final = 20_000
NO_MEMORY: Final = (
    "no memory was recorded; record it with `stepscope run --trace full`, or "
    "trace_level=RunOptions.FULL_TRACE in the options of the run"
)
_ONE_SET: Final = (
    "there is one set of runs; give two paths to compare them: stepscope view BASE NEW"
)
_NO_CLUSTER: Final = (
    "these runs are of one process; give the directory that holds those of several workers"
)
_NO_OPS: Final = "no op was recorded; record with `stepscope run`, or trace_level in the options"


def changes(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """Whether there is something new."""
    state, message = recordings.state
    count = len(recordings.survey.rows) if state in ("ok", "gone") and _known(recordings) else 0
    return {
        "generation": recordings.generation,
        "since": asked.number("since", 0),
        "state": state,
        "message": message,
        "runs": count,
        "growing": recordings.growing,
    }


def _known(recordings: Recordings) -> bool:
    try:
        return recordings.survey.readable
    except UnreadableFileError:
        return False


def session(recordings: Recordings, _asked: Asked) -> dict[str, Any]:
    """What is shown: heading, state, which pages have something to show."""
    state, message = recordings.state
    known = {
        "stepscope": version("stepscope"),
        "place": "view",
        "generation": recordings.generation,
        "state": state,
        "message": message,
        "growing": recordings.growing,
        "title": _title(recordings),
        "paths": [writable(str(path)) for path in recordings.source.paths],
        "engine": "",
        "summary": "",
        "base_ns": "0",
        "typical": None,
        "timeline_run": None,
        "pages": dict.fromkeys(
            ("overview", "timeline", "ops", "graph", "memory", "compare", "cluster"), message
        ),
        "sets": [],
        "sources": [],
        "damage": [],
        "folded": [],
        "folded_resources": {},
        "perfetto": False,
    }
    if not _known(recordings):
        return known
    survey = recordings.survey
    several = is_cluster(recordings)
    chosen = survey.typical
    return {
        **known,
        "engine": _engine(survey),
        "summary": _summary(survey),
        "base_ns": str(survey.rows[0].started_ns),
        "typical": chosen and {"run": chosen.number, "why": chosen.why},
        "timeline_run": "step" if several and _steps(recordings) else typical(recordings),
        "pages": _pages(survey, several),
        "sets": [
            {"id": str(i), "label": label, "runs": survey.set_of_run.count(i)}
            for i, label in enumerate(recordings.source.labels)
        ],
        "damage": survey.damage,
        "perfetto": True,
    }


def _steps(recordings: Recordings) -> bool:
    """Whether the workers of a cluster have directories of their own: a step is in several runs."""
    return len(workers_of(recordings)) > 1


def typical(recordings: Recordings) -> int:
    """The run to look at where nobody said which; an error where there is none."""
    chosen = recordings.survey.typical
    if chosen is None:
        raise UnreadableFileError("there is no run yet")
    return chosen.number


def runs(recordings: Recordings, _asked: Asked) -> dict[str, Any]:
    """The list of runs, as columns."""
    survey = recordings.survey
    rows = _chosen(survey.rows)
    base = survey.rows[0].started_ns
    found: dict[str, Any] = {
        "number": np.array([row.number for row in rows], np.uint32),
        "name": [row.name for row in rows],
        "kind": StringColumn.of([row.kind for row in rows]),
        "engine": StringColumn.of([row.engine for row in rows]),
        "status": StringColumn.of([row.status for row in rows]),
        "ok": np.array([row.ok for row in rows]),
        "ops": np.array([row.ops for row in rows], np.int64),
        "ns": np.array([row.ns for row in rows], np.int64),
        "started_ns": np.array([row.started_ns - base for row in rows], np.float64),
        "peak_bytes": np.array([row.peak_bytes for row in rows], np.int64),
        "losses": np.array([row.losses for row in rows], np.int64),
        "overhead_ns": np.array([row.overhead_ns for row in rows], np.int64),
        "set": np.array([row.set for row in rows], np.int64),
        "all": len(survey.rows),
    }
    if len(rows) < len(survey.rows):
        found["folded"] = [
            f"{number(len(survey.rows), 'run')}, of which {len(rows):,} are listed: those that "
            "failed, the first, the last, the longest and an even sample of the others"
        ]
    return found


def _chosen(rows: list[RunRow]) -> list[RunRow]:
    if len(rows) <= _MOST_RUNS:
        return rows
    part = _MOST_RUNS // 5
    longest = sorted(rows, key=lambda row: -row.ns)[:part]
    kept = {row.number for row in (*rows[:part], *rows[-part:], *longest)}
    kept |= {row.number for row in [row for row in rows if not row.ok][:part]}
    kept |= {row.number for row in rows[:: -(-len(rows) // part)]}
    return [row for row in rows if row.number in kept]


def _title(recordings: Recordings) -> str:
    """The script, where the record says which; else the path."""
    paths = recordings.source.paths
    for path in paths[:1]:
        try:
            for program in programs(path):
                script = program.last(SCRIPT)
                if script is not None and script.what:
                    return Path(writable(script.what)).name
        except (UnreadableFileError, OSError):
            break
    if not paths:
        return "runs of this process"
    first = file(writable(str(paths[0])))
    if len(paths) == 1:
        return first
    return f"{first} and {file(writable(str(paths[1]))) if len(paths) == 2 else len(paths) - 1}"


def _engine(survey: Survey) -> str:
    engines = dict.fromkeys(row.engine for row in survey.rows if row.engine)
    return ", ".join(engines)


def _summary(survey: Survey) -> str:
    rows = survey.verdict.rows
    count = number(len(survey.rows), "run")
    named = [row.step.key for row in rows if row.step.key]
    if not named:
        return count
    if len(rows) == 1:
        return f"{count} of {named[0]}"
    most = max(rows, key=lambda row: row.step.runs)
    if most.step.runs < 2:
        return f"{count} of {number(len(rows), 'kind')}"
    return f"{count}, {most.step.runs:,} of them of {most.step.key}"


def _pages(survey: Survey, several: bool) -> dict[str, str | None]:
    has_ops = any(row.ops for row in survey.rows)
    has_memory = any(row.has_memory or row.out_of_memory for row in survey.rows)
    ops = None if has_ops else _NO_OPS
    return {
        "overview": None,
        "timeline": ops,
        "ops": ops,
        "graph": ops,
        "memory": None if has_memory else NO_MEMORY,
        "compare": None if len(set(survey.set_of_run)) > 1 else _ONE_SET,
        "cluster": None if several else _NO_CLUSTER,
    }
