"""Input pipelines: what limits them and what a change would save, against what was planted."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import stepscope.tf1 as tf
from recorded_program import MS, run, slow_map, waiting_for_input
from stepscope.analysis import advise, input_pipeline, verdict
from stepscope.analysis.input import input_words
from stepscope.analysis.input.input_model import Model, StageCost, changes
from stepscope.analysis.program import verdict_words
from stepscope.analysis.program.verdict import notes_for_verdict
from stepscope.metadata import RunMetadata, iter_runs
from stepscope.options import RunOptions


def test_a_slow_map_is_named_with_its_line_and_time(tmp_path):
    [found] = input_pipeline(waiting_for_input(tmp_path, slow_map())).pipelines
    assert found.limiting.stage == "map"
    assert found.limiting.line == "input.py:6"
    assert found.limiting.function == "decode"
    assert found.limiting.own_ns == 20 * MS
    assert found.period_ns == 24 * MS
    assert found.wait_ns == 21 * MS
    assert found.taken_by == ("train_step",)
    assert [stage.stage for stage in found.stages] == ["range", "map", "batch"]
    assert list(input_words.heading(found)) == [
        "dataset at train.py:9 · 20 elements taken by train_step",
        "24.0 ms from one to the next, 88% of it waiting for them; the first took 21.0 ms",
        "`map` at input.py:6 (decode) limits: one thread makes an element in 20.0 ms",
    ]


def test_parallel_calls_and_a_prefetch_would_save_what_they_hide(tmp_path):
    [found] = input_pipeline(waiting_for_input(tmp_path, slow_map(cpu_ms=0))).pipelines
    by_key = {change.key: change for change in found.changes}
    # 3 ms are the step's own; batch takes 1 ms and the map, by four, 5 ms.
    assert by_key["parallel and prefetch"].calls == 4
    assert by_key["parallel and prefetch"].saves_ns == pytest.approx(19 * MS, rel=0.01)
    assert by_key["prefetch"].saves_ns == pytest.approx(3 * MS, rel=0.01)
    assert by_key["cache"].saves_ns == pytest.approx(20 * MS, rel=0.01)
    for change in found.changes:
        assert change.low_ns <= change.saves_ns <= change.high_ns


def test_the_verdict_names_the_stage_and_what_would_help(tmp_path):
    path = waiting_for_input(tmp_path, slow_map())
    found = verdict(((r.name, r.metadata) for r in iter_runs(path)), notes_for_verdict(path))
    [row] = found.rows
    assert verdict_words.cause(row) == "91% waiting for input: `map` at input.py:6"
    assert verdict_words.remedy(found, row).startswith(
        "one thread makes an element in 20.0 ms; 7 parallel calls of map and a prefetch at "
        "the end would save 21.0 ms (20.0 ms to 21.0 ms)"
    )


def test_a_map_in_parallel_calls_limits_by_all_of_them(tmp_path):
    planted = slow_map(calls=2, own_ms=40.0, period_ms=20.0)
    [found] = input_pipeline(
        waiting_for_input(tmp_path, planted, wait_ms=18.0, period_ms=20.0)
    ).pipelines
    assert found.limiting.stage == "map"
    assert found.limiting.calls == 2
    assert found.told_ns == 20 * MS
    assert input_words.limiting(found).endswith("2 threads make one in 20.0 ms")


def test_what_takes_the_elements_limits_where_nobody_waits(tmp_path):
    planted = slow_map(own_ms=0.1)
    [found] = input_pipeline(waiting_for_input(tmp_path, planted, wait_ms=0.2)).pipelines
    assert found.limiting is None
    assert not found.changes
    assert input_words.limiting(found) == "what takes the elements limits, not the pipeline"


def test_iterators_of_one_dataset_are_one_pipeline(tmp_path):
    [found] = input_pipeline(waiting_for_input(tmp_path, slow_map(), slow_map(number=1))).pipelines
    assert (found.iterators, found.elements) == (2, 40)


def test_a_later_note_of_a_pipeline_takes_the_place_of_an_earlier_one(tmp_path):
    [found] = input_pipeline(
        waiting_for_input(tmp_path, slow_map(elements=5), slow_map())
    ).pipelines
    assert found.elements == 20


def test_runs_alone_say_how_to_record_what_stages_do():
    waited = run(0, 10, [("IteratorGetNext", 1, 9)])
    found = input_pipeline(waited)
    assert found.waited_ns == 8 * MS
    assert "stepscope run SCRIPT" in found.lacking
    assert input_pipeline(RunMetadata()).lacking.startswith("no run took elements")


def test_time_in_which_other_ops_ran_is_no_waiting():
    busy = run(0, 10, [("IteratorGetNext", 1, 9), ("MatMul", 2, 6)])
    assert input_pipeline(busy).waited_ns == 4 * MS


def test_python_that_holds_the_interpreter_gains_nothing_by_more_calls():
    step = StageCost("map", 20e6, function=True, python=True)
    model = Model((step,), 1e6, cpu_ns=20e6, cores=4, python_ns=20e6)
    found = {change.key: change for change in changes(model, 21e6, 0.0, (0,))}
    assert found["parallel and prefetch"].saves_ns == 1e6
    assert found["parallel and prefetch"].high_ns == pytest.approx(16.8e6)


def test_python_that_only_waits_gains_by_more_calls():
    step = StageCost("map", 20e6, function=True, python=True)
    model = Model((step,), 1e6, cpu_ns=1e6, cores=4, python_ns=1e6)
    found = {change.key: change for change in changes(model, 21e6, 0.0, (0,))}
    assert found["parallel and prefetch"].calls == 16
    assert found["parallel and prefetch"].saves_ns == pytest.approx(21e6 - 20e6 / 16)


def test_what_would_save_nothing_is_no_advice(tmp_path):
    """Python that holds the interpreter while it makes each element."""
    planted = slow_map(own_ms=24.0, cpu_ms=24.0, python=True)
    path = waiting_for_input(tmp_path, planted, wait_ms=24.0)
    [found] = input_pipeline(path).pipelines
    assert any(change.calls and change.saves_ns < 0.05 * 24 * MS for change in found.changes)
    said = input_words.advice(found)
    assert said.startswith("one thread makes an element in 24.0 ms, in Python, which runs one call")
    assert "a cache after map would save" in said
    assert "if its elements are the same each time" in said
    assert "`decode` (input.py:2): one call of Python" in " ".join(advise(path).lacking)


# -- queues ------------------------------------------------------------------------------------


def test_a_queue_that_a_slow_thread_fills_names_its_op_and_line():
    with tf.Graph().as_default():
        queue = tf.FIFOQueue(4, [tf.float32], shapes=[[]])
        made = tf.py_func(lambda: (time.sleep(0.02), np.float32(1))[1], [], tf.float32)
        made.set_shape([])
        put = queue.enqueue([made])
        step = queue.dequeue() + 1.0
        runs = []

        def recorded(session, fetch, name):
            metadata = RunMetadata()
            options = RunOptions(trace_level=RunOptions.FULL_TRACE)
            session.run(fetch, options=options, run_metadata=metadata)
            runs.append((name, metadata))

        with tf.Session() as session:
            filling = threading.Thread(
                target=lambda: [recorded(session, put, "fill") for _ in range(6)]
            )
            filling.start()
            for _ in range(6):
                recorded(session, step, "take")
            filling.join()
    [found] = input_pipeline(runs).pipelines
    assert found.kind == "queue"
    assert found.name == "fifo_queue"
    assert found.share > 0.5
    assert found.limiting.name == "PyFunc"
    assert "test_input_pipeline.py" in found.limiting.line
    assert found.elements == 6
    sizes = {stage.stage: stage.buffered for stage in found.stages}
    assert 0 <= sizes["queue"] <= 4
