"""Estimates for all steps from those that a recorder with a budget kept, against all of them."""

from __future__ import annotations

import doctest
import random
from collections import Counter

import numpy as np
import pytest

from stepscope.analysis import op_profile
from stepscope.analysis.sampling import weights
from stepscope.analysis.sampling.sampled_profile import sampled_profile
from stepscope.analysis.sampling.summed_profile import profile_of_summaries
from stepscope.analysis.sampling.weights import Weights
from stepscope.metadata import OpColumns, Recording, RunMetadata
from stepscope.metadata.readers.kept_file import KeptRun, StepsRecording
from stepscope.metadata.stored.step_summaries import StepSummary
from stepscope.recorder.budget import Budget, Level
from stepscope.recorder.controller import Controller, Ended
from stepscope.recorder.keeping import Keep, Keeper
from stepscope.recorder.triggers import Slow

STEPS = 1500
APART = {"first", "failed", "trigger", "asked"}
OPS = ("MatMul", "Conv2D", "Relu", "AddV2")


def steps_of_a_program(seed: int) -> list[RunMetadata]:
    """Steps of 1 ms, the first ones longer, one in a hundred with an op that takes ten times."""
    chance = np.random.default_rng(seed)
    made = []
    for number in range(STEPS):
        took = chance.gamma(20, [20_000, 15_000, 5_000, 2_000]).astype(int)
        took = took * (3 if number < 5 else 1)
        if chance.random() < 0.01:
            took[1] *= 10
        ends = number * 10_000_000 + np.cumsum(took)
        ops = OpColumns.build(
            name=list(OPS), op=list(OPS), device=["/cpu:0"] * len(OPS), thread=[1] * len(OPS),
            scheduled_ns=ends - took, start_ns=ends - took, end_ns=ends,
        )  # fmt: skip
        made.append(RunMetadata.of(Recording(engine="embedded", ops=lambda ops=ops: ops)))
    return made


def kept_of(steps: list[RunMetadata], seed: int, share: float = 0.05) -> StepsRecording:
    """What a recorder keeps of them, under an injected clock; op times cost 0.1 ms."""
    keeper = Keeper(Keep(), memory=1 << 30, disk=1 << 30, seed=seed)
    control = Controller(Budget(share, seed=seed), keeper, [Slow(3)])
    levels, now, noted = {}, random.Random(seed).randrange(10**9), []
    for step in steps:
        begun = control.begins("step", now)
        levels[begun.number] = begun.level
        cost = {Level.LENGTH: 300, Level.TIMES: 100_000, Level.DETAIL: 200_000}[begun.level]
        now += int(step.ops.end_ns[-1] - step.ops.start_ns[0]) + cost
        control.ended(begun, Ended(now, cost, size=1000))
        if begun.level >= Level.TIMES:
            apart = APART & set(control.keeper.reasons(begun.number))
            noted.append((step.ops, now - cost - begun.began_ns, bool(apart)))
        now += 100_000
    keeper.closes()
    kept = [KeptRun(k.number, k.kind, levels[k.number], k.reasons) for k in keeper.kept()]
    lengths = control.lengths["step"].lengths
    summary = StepSummary("step", at=control.budget.kinds["step"].at, lengths=lengths)
    for ops, ns, apart in noted:
        summary.noted(ops, ns=ns, apart=apart)
    return StepsRecording(kept=tuple(kept), summaries=(summary,))


@pytest.fixture(scope="module")
def steps():
    return steps_of_a_program(seed=7)


def test_shares_and_medians_are_within_their_intervals_in_19_of_20_trials(steps):
    truth = {row.key: row for row in op_profile(steps)}
    within: Counter[str] = Counter()
    for trial in range(20):
        recording = kept_of(steps, seed=trial)
        assert len(recording.kept) < STEPS / 5
        runs = [(f"run_{k.number:06d}", steps[k.number - 1]) for k in recording.kept]
        profile = sampled_profile(runs, Weights.of(recording))
        assert profile.steps == STEPS
        for row in profile:
            true = truth[row.key]
            within[f"share {row.key}"] += abs(row.share - true.share) <= row.share_within
            within[f"median {row.key}"] += abs(row.p50_ns - true.p50_ns) <= row.p50_within
            assert row.share_within < 0.2
    assert min(within.values()) >= 18, within
    assert sum(within.values()) >= 0.95 * 20 * len(within), within


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_so_are_those_of_summaries_of_which_no_run_is_read(steps, share):
    truth = {row.key: row for row in op_profile(steps)}
    within: Counter[str] = Counter()
    for trial in range(20):
        profile = profile_of_summaries(kept_of(steps, trial, share), "type")
        assert profile.steps == STEPS
        assert profile.calls == pytest.approx(STEPS * len(OPS), rel=1e-6)
        for row in profile:
            true = truth[row.key]
            within[f"share {row.key}"] += abs(row.share - true.share) <= row.share_within
            within[f"median {row.key}"] += abs(row.p50_ns - true.p50_ns) <= row.p50_within
            assert row.share_within < (0.2 if share < 0.05 else 0.1)
    assert min(within.values()) >= 18, within
    assert sum(within.values()) >= 0.95 * 20 * len(within), within


def test_sums_are_estimated_for_all_steps(steps):
    truth = op_profile(steps)
    recording = kept_of(steps, seed=1)
    runs = [(f"run_{k.number:06d}", steps[k.number - 1]) for k in recording.kept]
    profile = sampled_profile(runs, Weights.of(recording))
    assert profile.calls == pytest.approx(truth.calls)
    assert profile.self_ns == pytest.approx(truth.self_ns, rel=0.1)
    # What was kept, taken for all of it, is a program with too many slow steps.
    naive = {row.key: row.share for row in op_profile([run for _, run in runs])}
    (conv,) = [row for row in profile if row.key == "Conv2D"]
    true = next(row.share for row in truth if row.key == "Conv2D")
    assert abs(conv.share - true) < abs(naive["Conv2D"] - true)


def test_a_recording_of_every_step_is_not_estimated():
    kept = tuple(KeptRun(n, "step", Level.DETAIL, ("first",)) for n in (1, 2, 3))
    recording = StepsRecording(kept=kept, summaries=(StepSummary("step", at=[0, 0, 0, 3]),))
    assert Weights.of(recording).all_are_there


def test_the_worked_example():
    assert doctest.testmod(weights).failed == 0
