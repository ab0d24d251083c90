"""Random graphs on every executor: what a store gives back of a run is the run."""

import numpy as np
import pytest
from graph_executors import EXECUTORS, runs_of, session_of
from hypothesis import given
from hypothesis import strategies as st
from random_graphs import specs
from structured_programs import NAMES, in_graph, programs

import stepscope.tf1 as tf
from random_examples import examples
from run_content import all_of
from stepscope.metadata.stored.stored_run import RunEncoder, decoded_run
from stepscope.options import RunOptions
from stepscope.runtime import observers

LEVELS = {"software": RunOptions.SOFTWARE_TRACE, "full": RunOptions.FULL_TRACE}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("executor", EXECUTORS)
@examples(20)
@given(drawn=specs())
def test_a_run_comes_back_as_it_was_recorded(executor, level, drawn):
    spec, example = drawn
    encoder = RunEncoder()
    seen = []

    def keep(metadata, _graph):
        # As a store does: before anybody looked at the run.
        seen.append((metadata, encoder.encode(metadata.held_now(), "what")))

    with session_of(spec, executor) as (session, built, options):
        fetches = [built.tensors[i] for i in spec.fetches]
        with observers.recording(keep, LEVELS[level]):
            for fed in runs_of(example):
                feeds = {built.tensors[i]: np.array(v) for i, v in fed.items()}
                session.run(fetches, feeds, options=options)
    assert len(seen) == 3
    for metadata, stored in seen:
        assert all_of(decoded_run(stored)) == all_of(metadata)
        ops = metadata.ops
        assert stored.ops == len(ops)
        assert (stored.started_ns, stored.ended_ns) == (ops.start_ns.min(), ops.end_ns.max())
        assert stored.call is not None


@examples(25)
@given(programs, st.tuples(*[st.integers(0, 50)] * len(NAMES)))
def test_a_run_with_branches_and_loops_comes_back(program, start):
    encoder, seen = RunEncoder(), []

    def keep(metadata, _graph):
        seen.append((metadata, encoder.encode(metadata.held_now())))

    with tf.Graph().as_default() as graph:
        feeds = {name: tf.placeholder(tf.int32, [], name=name) for name in NAMES}
        results = in_graph(program, dict(feeds))
        fetches = {name: tf.identity(results[name]) for name in NAMES}
    with observers.recording(keep, RunOptions.FULL_TRACE), tf.Session(graph=graph) as session:
        for more in (0, 1):
            session.run(fetches, {feeds[n]: v + more for n, v in zip(NAMES, start, strict=True)})
    assert len(seen) == 2
    for metadata, stored in seen:
        assert all_of(decoded_run(stored)) == all_of(metadata)
