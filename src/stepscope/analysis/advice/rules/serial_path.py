"""A serial path beside idle threads: ops wait for others of which they need nothing.

What orders them are control inputs (`tf.control_dependencies`). The run is replayed without those
between ops that share no data, on as many threads as the machine has cores. Products of matrices
and convolutions stay on one thread, for they use all cores by themselves, and so do ops of the
embedded engine that keep Python's lock while they compute (running sums are of these: NumPy adds up
under the lock), for of those one runs at a time whatever thread it is on. Another thread has to be
woken for what it gets: branches that are shorter than that gain nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from stepscope.analysis.advice.finding import Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.rewrite import Rewrite
from stepscope.analysis.advice.step_finding import evidence_of, of_step
from stepscope.analysis.execution.edges import input_node
from stepscope.analysis.program.run_parts import PYTHON_TYPES
from stepscope.analysis.replay import ANY, Change, RecordedWork, Work, ends

if TYPE_CHECKING:
    from stepscope.analysis.advice.material import StepMaterial

NAME: Final = "serial-path"
_SPREAD: Final = ("MatMul", "Conv", "Einsum", "LSTM", "GRU")
"""Types with such a part in their name run on all cores already."""
_UNDER_LOCK: Final = PYTHON_TYPES | {"Cumsum", "Cumprod"}
"""Types of the embedded engine that two threads take twice as long for as one does: measured."""
_BESIDE: Final = (0.2, 0.8, 1.0)
"""What of the gain is left as ops side by side are slower than alone: at least, likely, at most.
Threads share the machine's memory, and its cores with whatever else runs there; NumPy's ops were
measured to take 1.05 to 1.5 times as long on both of two cores."""
_LEAST: Final = 0.05
_HAND_OVER_NS: Final = {"embedded": 100_000.0}
_HAND_OVER_ELSEWHERE_NS: Final = 20_000.0
"""What it takes until a thread that sleeps runs what it was given; those of the embedded engine are
Python's, which have to get its lock, too."""


def find(material: Material) -> Iterator[Finding]:
    """A finding for each kind of step that control inputs make longer."""
    for step in material.steps:
        cut = _ordering(step)
        if not cut:
            continue
        cores = max(2, os.cpu_count() or 2)
        change = Change(cut=cut)
        hand_over = _HAND_OVER_NS.get(step.run.engine, _HAND_OVER_ELSEWHERE_NS)
        alone = _UNDER_LOCK if step.run.engine == "embedded" else frozenset()
        freed = {after for _, after in cut}

        def beside(
            run: RecordedWork, change: Change = change, cores: int = cores,
            hand_over: float = hand_over, freed: set[str] = freed,
            alone: frozenset[str] = alone,
        ) -> float:  # fmt: skip
            work = _on_threads(change.applied(run), run, cores, alone)
            delays = [
                delay + hand_over if name in freed else delay
                for name, delay in zip(run.nodes, work.delays, strict=True)
            ]
            # A call that kept to its own thread gives all to others, and is woken at the end.
            woken = 0.0 if len({t for t in run.work.threads if t >= 0}) > 1 else 2 * hand_over
            return run.around_ns + woken + max(ends(replace(work, delays=delays)))

        quick = step.work.replayed_ns() - beside(step.work)
        if quick < _LEAST * step.typical_ns:
            continue
        gain = step.predict(beside).between(*_BESIDE)
        waiting = sorted(freed)
        yield from of_step(
            step,
            NAME,
            title="ops that need nothing of each other run one after the other",
            line=step.line_of(waiting),
            gain=gain,
            do=f"{len(cut)} control dependencies less, and {cores} threads, would save",
            advice="take away the tf.control_dependencies between them, and let the session have "
            f"{cores} threads (inter_op_parallelism_threads)",
            evidence=evidence_of(step, waiting),
            rewrite=Rewrite(cut=cut, threads=cores),
        )


def _on_threads(work: Work, run: RecordedWork, cores: int, alone: frozenset[str]) -> Work:
    """Ops on any of the threads, but those that use all of them already or keep others from it."""

    def thread_of(thread: int, kind: str) -> int:
        if thread < 0:
            return thread
        return 0 if kind in alone or any(part in kind for part in _SPREAD) else ANY

    threads = [
        thread_of(thread, kind) for thread, kind in zip(work.threads, run.types, strict=True)
    ]
    return Work(work.lengths, work.delays, work.before, threads, cores)


def _ordering(step: StepMaterial) -> frozenset[tuple[str, str]]:
    """Pairs of which the second waits for the first, and for nothing that it made."""
    found = set()
    for name, inputs in step.inputs.items():
        data = {input_node(source) for source in inputs if not source.startswith("^")}
        kind = step.types.get(name, "")
        if kind in ("NoOp", "") or kind in step.keeps_state:
            continue  # a group of ops waits for them by what it is
        for source in inputs:
            before = input_node(source)
            if not source.startswith("^") or before in data:
                continue
            if step.types.get(before, "") in ("", "NoOp", *step.keeps_state):
                continue
            found.add((before, name))
    return frozenset(found)
