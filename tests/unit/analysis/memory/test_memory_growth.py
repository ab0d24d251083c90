"""What grows from step to step, a tree of who holds memory, and two peaks side by side."""

from __future__ import annotations

import numpy as np
import pytest

import stepscope.tf1 as tf
from stepscope.analysis import diff, memory_flame, memory_growth, verdict
from stepscope.analysis.program import verdict_words
from stepscope.errors import StepscopeError
from stepscope.metadata import Note, RunMetadata
from stepscope.metadata.program_notes import MEMORY
from stepscope.options import RunOptions

MIB = 1 << 20


def recorded(session, fetches, feed=None):
    metadata = RunMetadata()
    options = RunOptions(trace_level=RunOptions.FULL_TRACE)
    session.run(fetches, feed, options=options, run_metadata=metadata)
    return metadata


@pytest.fixture(scope="module")
def leaking():
    """Twelve steps of a program that puts a MiB into a queue in each and takes none out."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [512, 512], name="x")
        weights = tf.get_variable("net/weights", [512], initializer=tf.zeros_initializer())
        queue = tf.FIFOQueue(1000, [tf.float32], shapes=[[512, 512]], name="history")
        keep = queue.enqueue([x + weights], name="keep")
        session.run(tf.global_variables_initializer())
        feed = {x: np.ones((512, 512), np.float32)}
        return [recorded(session, keep, feed) for _ in range(12)]


def test_a_queue_that_only_grows_is_named_with_its_line(leaking):
    [row] = memory_growth(leaking).rows
    assert (row.key, row.kind) == ("keep", "queue")
    assert (row.bytes, row.low, row.high) == (MIB, MIB, MIB)
    assert "test_memory_growth.py" in row.source
    assert (row.first, row.last, row.steps) == (MIB, 11 * MIB, 11)


def test_the_verdict_names_the_leak(leaking):
    [said] = verdict_words.leaks(verdict(leaking))
    assert said.startswith("1.00 MiB a step (1.00 MiB to 1.00 MiB): `keep` (")
    assert said.endswith("), queue memory, now 11.0 MiB")


def test_a_variable_that_is_made_once_is_no_leak():
    with tf.Graph().as_default(), tf.Session() as session:
        doubled = tf.get_variable("v", [1000]) * 2.0
        session.run(tf.global_variables_initializer())
        runs = [recorded(session, doubled) for _ in range(10)]
    found = memory_growth(runs)
    assert not found.rows
    assert not found.lacking


def test_what_is_needed_is_said_where_no_memory_was_recorded():
    with tf.Graph().as_default(), tf.Session() as session:
        y = tf.constant(1.0) + 1.0
        software = RunOptions(trace_level=RunOptions.SOFTWARE_TRACE)
        runs = [RunMetadata() for _ in range(8)]
        for one in runs:
            session.run(y, options=software, run_metadata=one)
    assert "stepscope run --memory" in memory_growth(runs).lacking
    assert "too few runs" in memory_growth(runs[:2]).lacking


def process(resident, runs=None):
    runs = runs or list(range(1, len(resident) + 1))
    moments = list(range(len(runs)))
    details = {"moments": moments, "runs": runs, "resident": resident}
    return Note(MEMORY, 1, 2, details=details)


def growth_of_process(resident):
    from stepscope.analysis.memory.growth import GrowthSums

    return GrowthSums().growth([process(resident)]).rows


def test_a_process_that_grows_has_an_interval():
    noise = np.random.default_rng(1).integers(-50_000, 50_000, 120)
    [row] = growth_of_process([100 * MIB + 1_000_000 * i + int(noise[i]) for i in range(120)])
    assert row.key == "the process"
    assert row.low <= 1_000_000 <= row.high
    assert row.high - row.low < 200_000


def test_a_process_that_grows_by_little_in_all_does_not_leak():
    assert not growth_of_process([100 * MIB + 4096 * i for i in range(120)])
    assert growth_of_process([100 * MIB + 4096 * 100 * i for i in range(120)])


def test_a_process_that_grows_at_first_does_not_leak():
    assert not growth_of_process([min(30, i) * MIB for i in range(120)])
    noise = np.random.default_rng(2).integers(0, MIB, 120).tolist()
    assert not growth_of_process([100 * MIB + one for one in noise])


def test_a_tree_at_the_peak_sums_to_it(leaking):
    found = memory_flame(leaking)
    assert found.bytes == found.peak_bytes == leaking[-1].peak_bytes()
    assert sum(row.bytes for row in found.rows if row.depth == 0) == found.bytes
    by_path = {row.path: row for row in found.rows}
    assert by_path["keep"].bytes == 12 * MIB
    assert by_path["keep"].tensors == 12
    assert by_path["net/weights"].depth == 1
    assert by_path["net"].bytes == by_path["net/weights"].bytes == 4 * 512
    assert by_path["net/weights"].kind == "variable"


def test_a_tree_at_the_beginning_has_what_was_there_before(leaking):
    found = memory_flame(leaking[-1], "0ns")
    by_path = {row.path: row.bytes for row in found.rows}
    assert by_path["keep"] == 11 * MIB
    assert by_path["x"] == MIB
    assert "add" not in by_path


def test_an_instant_that_is_none_is_refused(leaking):
    with pytest.raises(StepscopeError, match=r"such as 120ms or 1\.5s, or peak"):
        memory_flame(leaking, "noon")
    with pytest.raises(StepscopeError, match="no single allocations were recorded"):
        memory_flame(RunMetadata())


def test_two_peaks_by_owner(leaking):
    found = diff(leaking[:2], leaking[-2:])
    by_name = {row.name: row for row in found.peaks}
    assert found.peaks[0].name == "keep"
    assert (by_name["keep"].base, by_name["keep"].new) == (2 * MIB, 12 * MIB)
    assert by_name["keep"].difference == 10 * MIB
    assert by_name["x"].difference == 0
