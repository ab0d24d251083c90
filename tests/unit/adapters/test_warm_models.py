"""Models after a thousand untraced calls: nothing is lost, times agree, every node has its reason.

TensorFlow's executor takes small kernels for cheap once they are warm, and its profiler leaves
cheap ops out: that is what these tests are about.
"""

from __future__ import annotations

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
    for _ in range(WARM_UP):
        model.call()
    return model, cold


def test_every_op_of_a_cold_trace_is_in_a_warm_one(warm):
    model, cold = warm
    metadata = model.trace()
    assert sum(cold.values()) >= 12
    assert counted(metadata) == cold
    assert metadata.completeness.losses == ()
    assert metadata.status.ok


def test_full_traces_hold_the_same_executions_and_the_bytes_of_their_outputs(warm):
    model, cold = warm
    ops = model.trace(RunOptions.FULL_TRACE).ops
    by_type, expected = Counter(list(ops.op)), Counter()
    for (_, op), count in cold.items():
        expected[op] += count
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
    """In the same run. TensorFlow's own figure holds about 1 us of bookkeeping per execution, and
    here also what our event costs: of an execution below 50 us that may be more than a fifth.
    """
    v1 = tensorflow.compat.v1
    model = build(tensorflow, kind, "session", scale=16)
    for _ in range(100 if kind == "cnn" else WARM_UP // 2):
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
    # The quietest of the runs, since the machine does other things as well.
    lowest = {op: (min(ours[op]), min(figures)) for op, figures in native.items()}
    sure = 0
    for op, (mine, theirs) in lowest.items():
        if theirs >= 50_000 * executions[op]:
            sure += theirs
            assert mine == pytest.approx(theirs, rel=0.2), op
        else:
            assert abs(mine - theirs) <= 10_000 * executions[op], op
    assert sure >= 0.4 * sum(theirs for _, theirs in lowest.values())
