"""Many threads on one program: nothing is lost, mixed up or left behind.

On the embedded engine alone: that abandoned ops do not starve a pool. TensorFlow's pools are not
ours, and an op that it was left with keeps one of their threads.
"""

import functools
import threading
import time

import numpy as np
import pytest
from contract_programs import IN_TIME_MS, side_by_side

from patience import patient
from stepscope import errors
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

THREADS = 16
EVERY = {f"y{i}_{k}" for i in range(4) for k in range(4 + i)}
"""The nodes of `program_of` that tell one run from another."""


def program_of(sleepers, nap):
    def sleep(value):
        sleepers.append(threading.current_thread())
        nap()
        return value

    def build(ops):
        counters = [
            ops.Variable(np.zeros((), np.int64), name=f"counter{i}", use_resource=i % 2 == 0)
            for i in range(4)
        ]
        x = ops.placeholder(ops.float32, [3], name="x")
        queue = ops.FIFOQueue(4, [ops.float32], shapes=[[]], name="never_filled")
        named = {"x": x, "init": ops.global_variables_initializer()}
        for i, counter in enumerate(counters):
            add = ops.assign_add(counter, np.int64(1), name=f"add{i}")
            y = x
            for k in range(4 + i):
                y = ops.add(y, 1.0, name=f"y{i}_{k}")
            named |= {
                f"counter{i}": counter, f"add{i}": add.op if hasattr(add, "op") else add,
                f"y{i}": y,
            }  # fmt: skip
        before = ops.add(x, 1.0, name="before")
        named["sleep"] = ops.py_func(sleep, [before], ops.float32, name="asleep")
        with ops.control_dependencies([before]):
            named["blocked"] = queue.dequeue(name="take")
        named["close"] = queue.close()
        return named

    return build


class Worker:
    """Runs of one thread, each checked on the spot."""

    def __init__(self, engine, program, number, start):
        self.engine, self.program, self.number, self.barrier = engine, program, number, start
        self.steps, self.timed_out, self.added = [], 0, [0] * 4
        self.runs, self.every = engine.stress

    def work(self):
        self.barrier.wait()
        for i in range(self.runs):
            if i % self.every == self.every // 2:
                self.time_out("sleep" if i // self.every % 2 else "blocked", i)
            else:
                self.count(i)

    def fed(self, i):
        return {"x": np.full(3, self.number * self.runs + i, np.float32)}

    def count(self, i):
        which = (self.number + i) % 4
        # A third stays where the engine wants it, the others go to a pool or stay with the caller.
        options = RunOptions(trace_level=3 if i % 2 else 0)
        if i % 3 == 1:
            options.timeout_in_ms = 60_000
        elif i % 3 == 2 and not self.engine.refuses("inter_op_thread_pool"):
            options.inter_op_thread_pool = -1
        metadata = RunMetadata()
        y, _ = self.program.run([f"y{which}", f"add{which}"], self.fed(i), options, metadata)
        self.added[which] += 1
        assert (y == self.number * self.runs + i + 4 + which).all()
        assert metadata.status.code == "OK"
        assert not self.engine.losses(metadata)
        self.steps.append(metadata.step_id)
        if i % 2:
            assert set(metadata.ops.step) == {metadata.step_id}
            mine = {f"y{which}_{k}" for k in range(4 + which)}
            assert self.program.ran(metadata) & EVERY == mine
        else:
            assert len(metadata.ops) == 0

    def time_out(self, fetch, i):
        metadata = RunMetadata()
        options = RunOptions(trace_level=1, timeout_in_ms=5)
        with pytest.raises(self.engine.errors.DeadlineExceededError) as caught:
            self.program.run(fetch, self.fed(i), options, metadata)
        assert caught.value.run_metadata is metadata
        assert metadata.status.code == "DEADLINE_EXCEEDED"
        # On a busy machine five milliseconds may be over while what goes in is being read.
        passed = {"x", "asleep", "take", "take_handle", "before", "never_filled"}
        assert set(self.program.outcomes(metadata)) <= passed
        if self.engine.stops_between_ops and self.engine.counts_losses:
            (loss,) = metadata.completeness.losses
            assert loss.count >= 2
            assert "DEADLINE_EXCEEDED" in loss.reason
        self.steps.append(metadata.step_id)
        self.timed_out += 1


def test_sixteen_threads_on_one_program(engine):
    sleepers = []
    workers_before = set(engine.workers())
    # On a busy machine a run's caller may come back after any time to see what became of its op:
    # one that is abandoned sleeps until all is over. TensorFlow's pools would run out of threads.
    over = threading.Event()
    ours = engine.name == "embedded"
    nap = functools.partial(*((over.wait, patient(60)) if ours else (time.sleep, 0.25)))
    program = engine.start(program_of(sleepers, nap))
    program.run("init")
    start = threading.Barrier(THREADS, timeout=patient(30))
    workers = [Worker(engine, program, n, start) for n in range(THREADS)]
    side_by_side([worker.work for worker in workers])

    runs, every = engine.stress
    counted = [int(program.run(f"counter{i}")) for i in range(4)]
    assert counted == [sum(w.added[i] for w in workers) for i in range(4)]
    assert sum(counted) + sum(w.timed_out for w in workers) == THREADS * runs
    assert {w.timed_out for w in workers} == {runs // every}
    steps = [step for w in workers for step in w.steps]
    assert len(set(steps)) == THREADS * runs, "each run's metadata is its own"

    # On a busy machine TensorFlow's cluster may never hear that a run's time was over; what such a
    # run waits in ends with the queue.
    program.run("close")
    program.close()
    left = set(engine.workers()) - workers_before
    if ours:
        assert left <= set(sleepers), "only threads of abandoned ops remain"
    over.set()
    for thread in left:
        thread.join(patient(10))
        assert not thread.is_alive(), "and they end with their op"


def test_after_close_only_the_threads_of_abandoned_ops_remain(engine, stuck):
    before = set(engine.workers())
    x = np.ones(2, np.float32)
    program = engine.start(
        lambda ops: {
            "y": ops.py_func(stuck, [ops.constant(x)], ops.float32, name="inside"),
            "z": ops.py_func(lambda v: v, [ops.constant(x)], ops.float32, name="quick"),
        }
    )
    abandoned = engine.python_op_at_deadline == "abandoned"
    if not abandoned:
        stuck.let_go_after(0.2)
    stuck.timing_out(program, engine.errors.DeadlineExceededError, "y", timeout_in_ms=50)
    for _ in range(5):
        program.run("z", None, RunOptions(timeout_in_ms=60_000))
    program.close()
    left = set(engine.workers()) - before
    if engine.name == "embedded":
        assert left == {stuck.thread}
    elif abandoned:
        assert left, "TensorFlow's session waits for the op to end"
    stuck.let_go.set()
    for thread in left:
        thread.join(patient(10))
    assert set(engine.workers()) - before == set()


def test_many_abandoned_ops_do_not_starve_the_embedded_pool(embedded):
    engine = embedded  # an op that TensorFlow was left with keeps one of its threads
    let_go = threading.Event()

    def build(ops):
        x = ops.placeholder(ops.float32, [], name="x")
        return {
            "x": x,
            "stuck": ops.py_func(
                lambda v: let_go.wait(patient(30)) and v, [x], ops.float32, name="stuck"
            ),
            "y": ops.add(x, 1.0, name="y"),
        }

    program = engine.start(build, engine.config(inter_op_parallelism_threads=1))
    try:
        for i in range(10):
            program.failing(
                engine.errors.DeadlineExceededError, "stuck", {"x": i}, timeout_in_ms=10
            )
            assert program.run("y", {"x": i}, RunOptions(timeout_in_ms=IN_TIME_MS)) == i + 1
    finally:
        let_go.set()


def test_programs_started_and_closed_by_many_threads(engine):
    def build(ops):
        x = ops.placeholder(ops.float32, [], name="x")
        return {"x": x, "y": ops.py_func(lambda v: v + np.float32(1), [x], ops.float32)}

    def run(program, x):
        """A run; again where TensorFlow's worker says that it got the request twice.

        It was sent once: seen, very rarely, where many connect at once.
        """
        options = RunOptions(timeout_in_ms=60_000)
        try:
            return program.run("y", {"x": x}, options)
        except errors.AbortedError as error:
            if "request was received twice" not in str(error):
                raise
            return program.run("y", {"x": x}, options)

    def work(number):
        for i in range(20):
            program = engine.start(build)
            assert run(program, number + i) == number + i + 1
            program.close()

    side_by_side([functools.partial(work, n) for n in range(8)])
