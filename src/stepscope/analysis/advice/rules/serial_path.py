"""A serial path beside idle threads: ops wait for others of which they need nothing.

What orders them are control inputs (`tf.control_dependencies`). The run is replayed without those
between ops that share no data, on as many threads as the machine has cores. Products of matrices
and convolutions stay on one thread, for they use all cores by themselves, and so do ops of the
embedded engine that keep Python's lock while they compute (running sums are of these: NumPy adds up
under the lock), for of those one runs at a time whatever thread it is on. Another thread has to be
woken for what it gets: branches that are shorter than that gain nothing.

A run on one thread does not tell how it goes on several. What is not known is replayed as it is
likely to be, at worst and at best, one after the other, and what the gain loses or wins by each is
added to the interval as independent errors are:

- how much **slower** ops are that run beside others, for as long as they do: they share the
  machine's memory;
- how long it takes to **wake** a thread: what it took in these runs where they had to, else what
  was measured once;
- the **pace** of the machine, which does other things, too, and has no core to spare then: at worst
  ops go on as slowly as in the slowest tenth of the runs, at best as in the quickest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import hypot
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.analysis.advice.finding import Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.rewrite import Rewrite
from stepscope.analysis.advice.step_finding import evidence_of, of_step
from stepscope.analysis.execution.edges import input_node
from stepscope.analysis.program.run_parts import PYTHON_TYPES
from stepscope.analysis.replay import ANY, Change, RecordedWork, Work, ends, slowed, woken_ops

if TYPE_CHECKING:
    from stepscope.analysis.advice.material import StepMaterial

NAME: Final = "serial-path"
_SPREAD: Final = ("MatMul", "Conv", "Einsum", "LSTM", "GRU")
"""Types with such a part in their name run on all cores already."""
_UNDER_LOCK: Final = PYTHON_TYPES | {"Cumsum", "Cumprod"}
"""Types of the embedded engine that two threads take twice as long for as one does: measured."""
_LEAST: Final = 0.05


class _Case(NamedTuple):
    """How it may go on several threads."""

    slower: float
    """What ops beside others take, of what they take alone."""
    wake_ns: float
    pace: float
    """How long ops take, of what they did in the run."""


_SLOWER: Final = (1.15, 1.7, 1.0)
"""As likely, at worst and at best. Measured on both of two cores: NumPy's ops took 1.0 to 1.1 times
as long on tensors of up to 4 MB, 1.1 to 1.7 times on larger ones."""
_WAKE_NS: Final = {"embedded": (100_000.0, 220_000.0, 60_000.0)}
_WAKE_ELSEWHERE_NS: Final = (20_000.0, 44_000.0, 12_000.0)
"""What it takes until a thread that sleeps runs what it was given; those of the embedded engine are
Python's, which have to get its lock, too."""
_WOKEN: Final = 5
"""Runs in which threads were woken so often tell it themselves."""


def find(material: Material) -> Iterator[Finding]:
    """A finding for each kind of step that control inputs make longer."""
    for step in material.steps:
        cut = _ordering(step)
        if not cut:
            continue
        branches = _Branches(step, cut, max(2, os.cpu_count() or 2))
        likely, *others = _cases(step)
        quick = step.work.replayed_ns() - branches.beside_ns(step.work, likely)
        if quick < _LEAST * step.typical_ns:
            continue
        gain = step.predict(partial(branches.beside_ns, case=likely))
        more = [
            step.gain_ns(partial(branches.beside_ns, case=case)) - gain.gain_ns for case in others
        ]
        gain = replace(
            gain,
            low_ns=gain.gain_ns - hypot(gain.gain_ns - gain.low_ns, *(min(0, ns) for ns in more)),
            high_ns=gain.gain_ns + hypot(gain.high_ns - gain.gain_ns, *(max(0, ns) for ns in more)),
        )
        freed, cores = branches.freed, branches.cores
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


def _cases(step: StepMaterial) -> list[_Case]:
    """As it is likely to go; then each of what is not known at worst, and at best."""
    woken = [
        delay
        for run in step.works
        for delay, was_woken in zip(run.work.delays, woken_ops(run.work), strict=True)
        if was_woken
    ]
    wakes = _WAKE_NS.get(step.run.engine, _WAKE_ELSEWHERE_NS)
    if len(woken) >= _WOKEN:
        wakes = tuple(np.quantile(woken, (0.5, 0.9, 0.1)).tolist())
    lengths = [run.recorded_ns for run in step.works]
    slowest, quickest = np.quantile(lengths, (0.9, 0.1)) / max(1.0, float(np.median(lengths)))
    likely = _Case(_SLOWER[0], wakes[0], 1.0)
    return [
        likely,
        *(likely._replace(slower=slower) for slower in _SLOWER[1:]),
        *(likely._replace(wake_ns=ns) for ns in wakes[1:]),
        *(likely._replace(pace=float(pace)) for pace in (slowest, quickest)),
    ]


class _Branches:
    """A step whose ops wait for less, on several threads."""

    def __init__(self, step: StepMaterial, cut: frozenset[tuple[str, str]], cores: int) -> None:
        self.freed: Final = {after for _, after in cut}
        self.cores: Final = cores
        self._change = Change(cut=cut)
        self._alone = _UNDER_LOCK if step.run.engine == "embedded" else frozenset()

    def beside_ns(self, run: RecordedWork, case: _Case) -> float:
        """How long a run would take."""
        work = _on_threads(self._change.applied(run), run, self.cores, self._alone)
        delays = [
            delay + case.wake_ns if name in self.freed else delay
            for name, delay in zip(run.nodes, work.delays, strict=True)
        ]
        lengths = [case.pace * length for length in work.lengths]
        work = slowed(replace(work, lengths=lengths, delays=delays), case.slower)
        # A call that kept to its own thread gives all to others, and is woken at the end.
        woken = 0.0 if len({t for t in run.work.threads if t >= 0}) > 1 else 2 * case.wake_ns
        return run.around_ns + woken + max(ends(work), default=0.0)


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
