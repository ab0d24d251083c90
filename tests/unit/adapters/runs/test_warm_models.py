"""Models after many untraced calls: nothing is lost, times agree, every node has its reason.

TensorFlow's executor takes small kernels for cheap once they are warm, and its profiler leaves
cheap ops out: that is what these tests are about.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict

import pytest
from models import CASES, build, counted

from stepscope.adapters.tensorflow import observe
from stepscope.analysis import coverage
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

WARM_UP = 1000
GRAPHS = [case for case in CASES if case[1] != "eager"]
"""Eager code has no graph that its ops could be compared with."""


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def warm(request, tensorflow):
    """(model, what its first call executed), after the warm-up."""
    kind, mode = request.param
    if mode == "eager":
        # Scalars and zeros are made once per process and kept; they are no part of later calls.
        build(tensorflow, kind, mode).call()
    model = build(tensorflow, kind, mode)
    cold = counted(model.trace())
    # Eager code has a kernel per kind of op, not per op: it is called many times in a call.
    for _ in range(WARM_UP // 10 if mode == "eager" else WARM_UP):
        model.call()
    return model, cold


def test_every_op_of_a_cold_trace_is_in_a_warm_one(warm):
    model, cold = warm
    assert sum(cold.values()) >= 12
    # By chance the profiler is stopped before a thread has left an op, and says so: then once more.
    # A session's step stats know no threads.
    declared = {"source lines", "threads"}
    for _ in range(5):
        metadata = model.trace()
        losses = [loss for loss in metadata.completeness.losses if loss.what not in declared]
        if not losses:
            break
        assert [loss.what for loss in losses] == ["op executions"]
    assert losses == []
    assert counted(metadata) == cold
    assert metadata.status.ok


def test_full_traces_hold_the_same_executions_and_the_bytes_of_their_outputs(warm):
    model, cold = warm
    ops = model.trace(RunOptions.FULL_TRACE).ops
    by_type, expected = Counter(list(ops.op)), Counter()
    for (_, op), count in cold.items():
        expected[op] += count
    # Functions are instantiated anew for it, and optimizers do not always keep the same NoOps.
    del by_type["NoOp"], expected["NoOp"]
    assert by_type == expected
    assert sum(ops.output_bytes) > 0


@pytest.mark.parametrize(("kind", "mode"), GRAPHS, ids=["-".join(case) for case in GRAPHS])
def test_coverage_leaves_next_to_nothing_unknown(tensorflow, kind, mode):
    model = build(tensorflow, kind, mode)
    for _ in range(200):
        model.call()
    metadata = model.trace(RunOptions.FULL_TRACE, output_partition_graphs=True)
    found = coverage(metadata, model.graph())
    assert found.unknown <= 0.02, [row.name for row in found.where("unknown")]
    assert found.counts()["measured"] >= 3


@pytest.mark.parametrize("kind", [kind for kind, mode in CASES if mode == "session"])
def test_times_by_op_type_are_those_of_native_step_stats(tensorflow, kind):
    """In the same run, on models large enough for their work to be what is measured.

    TensorFlow's own figure holds about 1 us of bookkeeping per execution, and here also what our
    event costs: some microseconds, and tens of them for a thread's first one.
    """
    v1 = tensorflow.compat.v1
    scales = {"mlp": 24, "cnn": 8, "lstm": 32, "input_pipeline": 16}
    model = build(tensorflow, kind, "session", scale=scales[kind])
    for _ in range(WARM_UP // 10):
        model.call()
    ours, native, executions = defaultdict(list), defaultdict(list), Counter()
    for _ in range(30):
        message = v1.RunMetadata()
        with observe(RunOptions(trace_level=RunOptions.SOFTWARE_TRACE)) as metadata:
            model.session.native_run(
                model.fetches,
                options=v1.RunOptions(trace_level=v1.RunOptions.SOFTWARE_TRACE),
                run_metadata=message,
            )
        theirs = RunMetadata.FromString(message.SerializeToString()).ops
        types = dict(zip(list(theirs.name), list(theirs.op), strict=True))
        executions = Counter(list(theirs.op))
        for figures, ops in ((ours, metadata.ops), (native, theirs)):
            totals = Counter()
            for name, ns in zip(list(ops.name), ops.end_ns - ops.start_ns, strict=True):
                totals[types.get(name, "")] += int(ns)
            for op in executions:
                figures[op].append(totals[op])
    sure = 0
    for op, figures in native.items():
        pairs = list(zip(ours[op], figures, strict=True))
        theirs = statistics.median(figures)
        if theirs >= 200_000 * executions[op]:
            sure += theirs
            ratio = statistics.median(mine / their for mine, their in pairs)
            assert ratio == pytest.approx(1.0, abs=0.2), op
        else:
            # The quietest of the runs: what is small is disturbed most by a busy machine.
            apart = min(abs(mine - their) for mine, their in pairs)
            assert apart <= 10_000 * executions[op] + 50_000, op
    assert sure >= 0.4 * sum(statistics.median(figures) for figures in native.values())
