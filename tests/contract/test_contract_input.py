"""A pipeline of tf.data is run like everything else: traced, timed out, at its end an error."""

from __future__ import annotations

import functools
import threading

import numpy as np
from contract_programs import IN_TIME_MS, pipeline

from patience import patient
from stepscope.options import RunOptions


def test_a_pipeline_gives_its_elements_and_is_traced(session_engine):
    program = session_engine.start(pipeline)
    np.testing.assert_array_equal(program.run("after"), [1, 11])
    metadata = program.traced("after")
    assert {"take", "after"} <= program.ran(metadata)
    rows = program.rows(metadata)
    assert metadata.ops.end_ns[rows["take"]] <= metadata.ops.start_ns[rows["after"]]
    # What TensorFlow's own threads did is told where its profiler was on, else declared.
    assert {loss.what for loss in session_engine.losses(metadata)} <= {"input pipelines"}
    np.testing.assert_array_equal(program.run("after"), [41, 51])


def test_the_end_of_a_pipeline_is_an_error_with_metadata(session_engine):
    program = session_engine.start(pipeline)
    for _ in range(3):
        program.run("after")
    error, metadata, _ = program.failing(session_engine.errors.OutOfRangeError, "after")
    assert "End of sequence" in str(error)
    assert error.run_metadata is metadata
    assert metadata.status.code == "OUT_OF_RANGE"
    assert list(program.outcomes(metadata)) in (["take"], [])


def test_a_deadline_ends_the_wait_for_an_element(session_engine):
    let_go = threading.Event()

    def wait_for_it(x):
        assert let_go.wait(patient(60))
        return x

    program = session_engine.start(functools.partial(pipeline, function=wait_for_it))
    error, metadata, seconds = program.failing(
        session_engine.errors.DeadlineExceededError, "after", timeout_in_ms=100
    )
    assert seconds < patient(30)
    assert error.run_metadata is metadata
    assert metadata.status.code == "DEADLINE_EXCEEDED"
    assert metadata.status.in_flight == ["take"]
    let_go.set()
    if session_engine.name == "embedded":
        # TensorFlow's iterator is cancelled with the run, and ends.
        np.testing.assert_array_equal(
            program.run("after", options=RunOptions(timeout_in_ms=IN_TIME_MS)), [1, 11]
        )
