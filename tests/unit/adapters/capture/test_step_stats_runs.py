"""Runs of a session that TensorFlow's own step stats tell of: where, and what is said of it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import stepscope
from stepscope import errors
from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow.node_log import build
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions
from stepscope.store import Store

SOFTWARE = RunOptions(trace_level=RunOptions.SOFTWARE_TRACE)
FINE = np.ones([2, 2], np.float32)
NOT_A_NUMBER = np.full([2, 2], np.nan, np.float32)


class Steps:
    """A session whose step fails where it is fed what is no number."""

    def __init__(self, tf):
        build.turn_off()
        self.v1 = tf.compat.v1
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.fed = self.v1.placeholder(tf.float32, [2, 2], name="fed")
            product = tf.matmul(self.fed, self.fed, name="product")
            checked = tf.debugging.check_numerics(product, "not a number", name="checked")
            self.fetched = tf.tanh(checked, name="fetched")
        self.session = adapter.Session(graph=self.graph)

    def run(self, value=FINE, fetched=None, **options):
        metadata = RunMetadata()
        asked = RunOptions(**{"trace_level": RunOptions.SOFTWARE_TRACE, **options})
        fetched = self.fetched if fetched is None else fetched
        self.session.run(fetched, {self.fed: value}, options=asked, run_metadata=metadata)
        return metadata

    def fail(self, **options):
        with pytest.raises(errors.InvalidArgumentError) as caught:
            self.run(NOT_A_NUMBER, **options)
        return caught.value.run_metadata

    def theirs(self):
        """The nodes of TensorFlow's own step stats, and how often each is there."""
        native = self.v1.RunMetadata()
        options = self.v1.RunOptions(trace_level=self.v1.RunOptions.SOFTWARE_TRACE)
        with self.v1.Session(graph=self.graph) as session:
            session.run(self.fetched, {self.fed: FINE}, options, native)
        return Counter(
            node.node_name for device in native.step_stats.dev_stats for node in device.node_stats
        )


@pytest.fixture
def steps(tensorflow):
    found = Steps(tensorflow)
    yield found
    found.session.close()


def test_once_a_run_was_profiled_the_next_ones_are_told_by_step_stats(steps):
    first, *later = (steps.run() for _ in range(3))
    assert (first.recorder, first.completeness.complete) == ("profiler", True)
    for run in later:
        assert run.recorder == "step stats"
        assert Counter(run.ops.name) == steps.theirs()
        assert run.ops.op[list(run.ops.name).index("product")] == "MatMul"
        assert (np.diff(run.ops.start_ns) >= 0).all()
        assert set(run.ops.step) == {run.step_id}
        assert run.sources["product"] == first.sources["product"]
        assert run.overhead.ns > 0
        (loss,) = run.completeness.losses
        assert loss.what == "threads"
        assert "cost less than the profiler" in loss.reason


def test_what_a_failed_run_did_is_declared_lost_and_the_next_is_profiled(steps):
    steps.run()
    steps.run()
    failed = steps.fail()
    assert failed.recorder == "step stats"
    assert failed.status.code == "INVALID_ARGUMENT"
    assert failed.status.in_flight == ["checked"]
    assert len(failed.ops) == 0
    (loss,) = failed.completeness.losses
    assert loss.what == "op executions"
    assert "no step stats of a run that failed" in loss.reason
    again = steps.fail()
    assert again.recorder == "profiler"
    assert again.status.in_flight == ["checked"]
    assert "product" in again.ops.name
    assert [steps.run().recorder for _ in range(2)] == ["profiler", "step stats"]


def test_a_run_that_fails_at_once_is_profiled(steps):
    assert steps.fail().recorder == "profiler"
    assert steps.run().recorder == "profiler"


@pytest.mark.parametrize(
    "asked",
    [
        {"trace_level": RunOptions.FULL_TRACE},
        {"timeout_in_ms": 60_000},
        {"report_tensor_allocations_upon_oom": True},
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_what_asks_for_more_than_times_is_profiled(steps, asked):
    steps.run()
    assert steps.run(**asked).recorder == "profiler"
    assert steps.run().recorder == "step stats"


def test_other_fetches_and_python_functions_are_profiled(steps, tensorflow):
    steps.run()
    assert steps.run(fetched=[steps.fetched]).recorder == "step stats"
    with tensorflow.Graph().as_default():
        python = steps.v1.py_func(lambda: np.float32(1.0), [], tensorflow.float32)
        session = adapter.Session()
        runs = [RunMetadata() for _ in range(2)]
        for metadata in runs:
            session.run(python, options=SOFTWARE, run_metadata=metadata)
        session.close()
    assert [run.recorder for run in runs] == ["profiler", "profiler"]


def test_inside_another_traced_run_it_belongs_to_both(steps):
    steps.run()
    with stepscope.observe(SOFTWARE) as outer:
        inner = steps.run()
    assert inner.recorder == "profiler"
    assert {"product"} <= set(inner.ops.name) & set(outer.ops.name)


def test_graphs_can_be_had_beside_it(steps):
    steps.run()
    told = steps.run(output_partition_graphs=True)
    assert "product" in {node.name for graph in told.partition_graphs for node in graph.node}


def test_a_store_keeps_them(steps, tmp_path):
    steps.run()
    run = steps.run()
    with Store(tmp_path) as store:
        store.add(run, "a step")
    (again,) = stepscope.load(tmp_path)
    assert again.recorder == "step stats"
    assert again.step_stats == run.step_stats
    assert again.completeness == run.completeness
