"""`inter_op_thread_pool` and the run-handler pool: where a run executes.

On the embedded engine alone: what its pools are called in the record, how one pool stands in for
another (-1 with several partitions, the run-handler pool in a session with pools of its own), and
that the run-handler pool is one for all sessions. TensorFlow's threads have no names to go by.
"""

import ast
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from contract_programs import IN_TIME_MS

from patience import patient
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions, ThreadPoolOptionProto


def who_ran(ops):
    """A graph whose two independent Python ops say which thread they ran on."""

    def here():
        return np.int64(threading.get_ident())

    first = ops.py_func(here, [], ops.int64, name="first")
    second = ops.py_func(here, [], ops.int64, name="second")
    return {"first": first, "second": second, "both": ops.stack([first, second], name="both")}


def pools(*sizes_and_names):
    return [ThreadPoolOptionProto(num_threads=n, global_name=g) for n, g in sizes_and_names]


def pools_used(engine, program, fetch="both", **options):
    """The embedded engine's pools that the Python ops of a run were on."""
    metadata = program.traced(fetch, **options)
    named = dict(zip(metadata.ops.name, metadata.ops.thread_name, strict=True))
    return {engine.pool_of(name) for node, name in named.items() if node in ("first", "second")}


def threads_used(program, fetch="both", **options):
    """The threads that the Python ops were on, over some runs."""
    runs = [program.run(fetch, None, RunOptions(**options)) for _ in range(5)]
    return {int(ident) for run in runs for ident in np.ravel(run)}


def test_each_index_is_its_own_pool(session_engine):
    program = session_engine.start(
        who_ran, session_engine.config(session_inter_op_thread_pool=pools((1, ""), (2, "")))
    )
    first = threads_used(program, inter_op_thread_pool=0)
    second = threads_used(program, inter_op_thread_pool=1)
    assert len(first) == 1
    assert 1 <= len(second) <= 2
    assert not first & second
    assert threading.get_ident() not in first | second


def test_the_pools_of_the_embedded_engine_are_named_in_the_record(embedded):
    program = embedded.start(
        who_ran, embedded.config(session_inter_op_thread_pool=pools((1, ""), (2, "")))
    )
    first = pools_used(embedded, program, inter_op_thread_pool=0)
    second = pools_used(embedded, program, inter_op_thread_pool=1)
    assert len(first) == len(second) == 1
    assert not first & second
    assert "caller" not in first | second


def test_the_configured_pool_also_serves_runs_that_could_stay_on_the_caller_s_thread(
    session_engine,
):
    program = session_engine.start(
        who_ran, session_engine.config(session_inter_op_thread_pool=pools((1, "")))
    )
    assert program.run("first") != threading.get_ident()
    assert program.run("first") == program.run("second"), "one thread serves all"


def test_a_pool_has_as_many_threads_as_it_was_given(session_engine):
    engine = session_engine
    meeting = threading.Barrier(3, timeout=patient(20))

    def build(ops):
        def meet():
            meeting.wait()
            return np.int64(threading.get_ident())

        return {"all": ops.stack([ops.py_func(meet, [], ops.int64) for _ in range(3)])}

    program = engine.start(build, engine.config(session_inter_op_thread_pool=pools((3, ""))))
    for _ in range(5):
        assert len(set(program.run("all"))) == 3, "three ops were inside at once"


def test_one_thread_runs_one_op_at_a_time(session_engine):
    engine = session_engine
    inside, most = [], []

    def build(ops):
        def enter():
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.002)
            inside.pop()
            return np.float32(0)

        return {"all": ops.add_n([ops.py_func(enter, [], ops.float32) for _ in range(8)])}

    program = engine.start(build, engine.config(session_inter_op_thread_pool=pools((1, ""))))
    program.run("all")
    assert max(most) == 1
    assert len(most) == 8


def test_a_global_name_is_one_pool_for_all_sessions(session_engine):
    engine = session_engine
    config = engine.config(session_inter_op_thread_pool=pools((1, "shared by two")))
    one, two = engine.start(who_ran, config), engine.start(who_ran, config)
    assert one.run("first") == two.run("first")
    own = engine.config(session_inter_op_thread_pool=pools((1, "")))
    three, four = engine.start(who_ran, own), engine.start(who_ran, own)
    assert three.run("first") != four.run("first")


def test_a_shared_pool_outlives_the_session_that_made_it(session_engine):
    engine = session_engine
    config = engine.config(session_inter_op_thread_pool=pools((1, "outlives")))
    one, two = engine.start(who_ran, config), engine.start(who_ran, config)
    thread = one.run("first")
    one.close()
    assert two.run("first") == thread


def test_minus_one_is_the_caller_s_thread(engine):
    program = engine.start(who_ran)
    if engine.refusal(program, "both", None, RunOptions(inter_op_thread_pool=-1)):
        return
    assert threads_used(program, inter_op_thread_pool=-1) == {threading.get_ident()}
    metadata = program.traced("both", inter_op_thread_pool=-1)
    row = program.rows(metadata)
    assert {metadata.ops.thread[row[node]] for node in ("first", "second")} == {
        threading.get_native_id()
    }


def test_minus_one_leaves_configured_pools_alone(session_engine):
    program = session_engine.start(
        who_ran, session_engine.config(session_inter_op_thread_pool=pools((2, "")))
    )
    assert threads_used(program, inter_op_thread_pool=-1) == {threading.get_ident()}


@pytest.mark.parametrize("own", [True, False], ids=["own pools", "default pool"])
def test_minus_one_with_several_partitions_is_pool_zero(embedded, own):
    engine = embedded

    def build(ops):
        with ops.device("/cpu:0"):
            first = ops.py_func(lambda: np.float32(1), [], ops.float32, name="first")
        with ops.device("/cpu:1"):
            second = ops.py_func(lambda v: v, [first], ops.float32, name="second")
        return {"second": second}

    fields = {"session_inter_op_thread_pool": pools((1, ""), (1, ""))} if own else {}
    program = engine.start(build, engine.config(device_count={"CPU": 2}, **fields))
    expected = pools_used(
        engine, program, "second", inter_op_thread_pool=0, timeout_in_ms=IN_TIME_MS
    )
    assert "caller" not in expected
    assert pools_used(engine, program, "second", inter_op_thread_pool=-1) == expected


@pytest.mark.parametrize("index", [-2, 1, 7])
def test_any_other_index_is_an_error(engine, index):
    program = engine.start(who_ran)
    with pytest.raises(
        engine.errors.InvalidArgumentError, match=rf"Invalid inter_op_thread_pool: {index}$"
    ):
        program.run("first", None, RunOptions(inter_op_thread_pool=index))
    assert program.run("first"), "the session survives"


def test_the_limit_is_the_number_of_configured_pools(session_engine):
    engine = session_engine
    program = engine.start(
        who_ran, engine.config(session_inter_op_thread_pool=pools((1, ""), (1, "")))
    )
    assert program.run("first", None, RunOptions(inter_op_thread_pool=1))
    with pytest.raises(
        engine.errors.InvalidArgumentError, match=r"Invalid inter_op_thread_pool: 2$"
    ):
        program.run("first", None, RunOptions(inter_op_thread_pool=2))


# -- the run-handler pool ----------------------------------------------------------------------


def handled(priority=0, **options):
    return RunOptions(
        experimental=RunOptions.Experimental(
            use_run_handler_pool=True,
            run_handler_pool_options={"priority": priority},
        ),
        **options,
    )


def marks(order, gate):
    def build(ops):
        mark = ops.placeholder(ops.int64, [], name="mark")

        def note(value):
            if value == 0:
                gate.wait(patient(20))
            order.append(int(value))
            return value

        return {"mark": mark, "noted": ops.py_func(note, [mark], ops.int64, name="noted")}

    return build


def until_asleep(thread):
    """Wait until a thread waits for something, and not just for a core or for the interpreter."""
    status = Path(f"/proc/self/task/{thread.native_id}/status")
    before, alike = "", 0
    while alike < 5:
        time.sleep(0.01)
        found = status.read_text()
        switches = found[found.index("voluntary_ctxt_switches") :]
        alike = alike + 1 if "State:\tS" in found and switches == before else 0
        before = switches


def serve(engine, runs, workers=1):
    """The order in which runs (mark, priority) are served that all wait for the same thread."""
    order, gate, waiting = [], threading.Event(), []
    config = engine.config(inter_op_parallelism_threads=workers)
    program = engine.start(marks(order, gate), config)

    def start(mark, priority):
        thread = threading.Thread(
            target=program.run, args=("noted", {"mark": mark}, handled(priority))
        )
        thread.start()
        waiting.append(thread)
        until_asleep(thread)  # so that the runs arrive in this order

    start(0, 0)
    for mark, priority in runs:
        start(mark, priority)
    assert order == []
    gate.set()
    for thread in waiting:
        thread.join(patient(20))
    program.close()
    return order[1:]


def test_runs_are_served_by_priority_and_then_oldest_first(session_engine):
    """In a process of its own: the first session settles how many threads TensorFlow has."""
    script = (
        f"import sys; sys.path[:0] = {[str(p) for p in Path(__file__).parents[:2]]!r}\n"
        "from contract_tensorflow import ENGINES\n"
        "from test_contract_thread_pools import serve\n"
        f"engine = ENGINES[{session_engine.key or session_engine.name!r}]()\n"
        "print([serve(engine, [(1, 0), (2, 0), (3, 0)]),"
        " serve(engine, [(1, 0), (2, 5), (3, 1), (4, 5)])])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=patient(240),
        # The tests ask for two threads at least, where there is one core; here there is to be one.
        env={k: v for k, v in os.environ.items() if k != "TF_NUM_INTEROP_THREADS"},
    )
    assert done.returncode == 0, done.stderr
    alike, apart = ast.literal_eval(done.stdout.splitlines()[-1])
    assert alike == [1, 2, 3]
    assert apart == [2, 4, 3, 1]


def test_the_run_handler_pool_is_one_for_all_sessions(embedded):
    engine = embedded
    one, two = engine.start(who_ran), engine.start(who_ran)
    used = set()
    for program in (one, two):
        metadata = RunMetadata()
        program.run("both", None, handled(trace_level=3), metadata)
        assert metadata.completeness.complete
        named = dict(zip(metadata.ops.name, metadata.ops.thread_name, strict=True))
        used |= {engine.pool_of(named["first"])}
    assert len(used) == 1
    assert used != pools_used(engine, one, timeout_in_ms=IN_TIME_MS), "not the session's pool"
    assert "caller" not in used


def test_the_run_handler_pool_runs_the_ops_elsewhere_and_loses_nothing(engine):
    program = engine.start(who_ran)
    if engine.refusal(program, "both", None, handled()):
        return
    metadata = RunMetadata()
    idents = program.run("both", None, handled(2, trace_level=1), metadata)
    assert threading.get_ident() not in set(idents)
    assert metadata.completeness.complete
    assert {"first", "second"} <= program.ran(metadata)


def assert_no_effect(metadata, field):
    (loss,) = metadata.completeness.losses
    assert loss.what == field
    assert "no effect" in loss.reason
    assert not metadata.completeness.complete


NO_EFFECT = {
    "use_per_session_threads": ({"use_per_session_threads": True}, {}),
    "a pool of its own": (
        {"session_inter_op_thread_pool": pools((1, ""), (1, ""))},
        {"inter_op_thread_pool": 1},
    ),
}


@pytest.mark.parametrize(("fields", "options"), NO_EFFECT.values(), ids=NO_EFFECT)
def test_in_a_session_with_pools_of_its_own_it_has_no_effect_and_that_is_said(
    session_engine, fields, options
):
    program = session_engine.start(who_ran, session_engine.config(**fields))
    metadata = RunMetadata()
    program.run("both", None, handled(trace_level=1, **options), metadata)
    assert_no_effect(metadata, "experimental.use_run_handler_pool")


def test_the_embedded_engine_s_own_pool_is_used_instead(embedded):
    program = embedded.start(who_ran, embedded.config(session_inter_op_thread_pool=pools((1, ""))))
    metadata = RunMetadata()
    program.run("both", None, handled(trace_level=3), metadata)
    named = dict(zip(metadata.ops.name, metadata.ops.thread_name, strict=True))
    assert {embedded.pool_of(named["first"])} == pools_used(embedded, program)
    assert_no_effect(metadata, "experimental.use_run_handler_pool")


def test_on_the_caller_s_thread_it_has_no_effect_and_that_is_said(engine):
    program = engine.start(who_ran)
    options = handled(inter_op_thread_pool=-1, trace_level=1)
    if engine.refusal(program, "both", None, options):
        return
    metadata = RunMetadata()
    program.run("both", None, options, metadata)
    assert_no_effect(metadata, "experimental.use_run_handler_pool")


def test_a_priority_without_the_pool_has_no_effect_and_that_is_said(engine):
    program = engine.start(who_ran)
    options = RunOptions(trace_level=1)
    options.experimental.run_handler_pool_options.priority = 4
    if engine.refusal(program, "both", None, options):
        return
    metadata = RunMetadata()
    program.run("both", None, options, metadata)
    (loss,) = metadata.completeness.losses
    assert loss.what == "experimental.run_handler_pool_options.priority"
    assert "use_run_handler_pool" in loss.reason


def test_the_run_handler_pool_keeps_deadlines(session_engine, stuck):
    engine = session_engine
    program = engine.start(
        lambda ops: {"y": ops.py_func(stuck, [ops.constant([1.0])], ops.float32, name="inside")}
    )
    options = {"experimental": handled().experimental, "timeout_in_ms": 100, "trace_level": 0}
    _, metadata, _ = stuck.timing_out(program, engine.errors.DeadlineExceededError, "y", **options)
    assert metadata.status.in_flight == ["inside"]


@pytest.mark.parametrize("where", ["own pool", "run-handler pool", "process's pool"])
def test_a_run_that_waits_for_a_queue_does_not_keep_the_only_thread(session_engine, where):
    engine = session_engine

    def build(ops):
        queue = ops.FIFOQueue(1, [ops.float32], shapes=[[]], name="queue")
        return {"take": queue.dequeue(name="take"), "put": queue.enqueue([3.0], name="put")}

    fields = {"session_inter_op_thread_pool": pools((1, ""))} if where == "own pool" else {}
    program = engine.start(build, engine.config(inter_op_parallelism_threads=1, **fields))
    options = handled() if where == "run-handler pool" else RunOptions(timeout_in_ms=15_000)
    taken = []
    takers = [
        threading.Thread(target=lambda: taken.append(program.run("take", None, options)))
        for _ in range(4)
    ]
    for taker in takers:
        taker.start()
    for _ in takers:
        program.run("put", None, options)
    for taker in takers:
        taker.join(patient(20))
    assert taken == [3.0] * 4
