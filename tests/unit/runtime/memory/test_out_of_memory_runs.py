"""Running out of memory, by a limit or by the machine, wherever it happens."""

import contextlib
import gc
import json
import re
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from patience import patient
from stepscope.errors import InvalidArgumentError, ResourceExhaustedError
from stepscope.options import ConfigProto, RunOptions, ThreadPoolOptionProto
from stepscope.runtime.plan import plan

MB = 1 << 20
N = MB // 4
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
REPORT = RunOptions(report_tensor_allocations_upon_oom=True)
INLINE = {"inter_op_thread_pool": -1}


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture(params=["inline", "pooled"])
def executor(request, monkeypatch):
    """Options and configuration of a run on the caller's thread, or op by op on a pool."""
    if request.param == "inline":
        return {"inter_op_thread_pool": -1}, {}
    monkeypatch.setattr(plan, "EXPENSIVE_NS", -1)
    return {}, {"session_inter_op_thread_pool": [ThreadPoolOptionProto(num_threads=2)]}


def limited(limit, **config):
    return tf.Session(config=ConfigProto(memory_limit_bytes=limit, **config))


def failing(session, fetches, feeds=None, **options):
    """(error, metadata) of a run that has to run out of memory."""
    metadata = stepscope.RunMetadata()
    with pytest.raises(ResourceExhaustedError) as caught:
        session.run(fetches, feeds, options=RunOptions(**options), run_metadata=metadata)
    return caught.value, metadata


def check_report(metadata, limit=None):
    report = metadata.out_of_memory
    assert sum(row.bytes for row in report.rows) == report.live
    assert report.limit == limit
    if limit is not None:
        assert report.live <= limit < report.live + report.request.bytes
    assert [r.bytes for r in report.rows] == sorted((r.bytes for r in report.rows), reverse=True)
    assert metadata.status.code == "RESOURCE_EXHAUSTED"
    return report


def wide(x, count=3):
    """Sums of sums: each of the count tensors lives until the end."""
    parts = [tf.multiply(x, float(i + 2), name=f"part{i}") for i in range(count)]
    return tf.reduce_sum(tf.concat(parts, 0, name="joined"), name="total")


def feed():
    return tf.placeholder(tf.float32, [N], name="x"), np.ones(N, np.float32)


def test_a_limit_names_the_op_that_asked_for_too_much(executor):
    options, config = executor
    x, ones = feed()
    total = wide(x)
    with limited(6 * MB, **config) as session:
        error, metadata = failing(
            session, total, {x: ones}, report_tensor_allocations_upon_oom=True, **options
        )
        report = check_report(metadata, 6 * MB)
        assert error.error_code == 8
        assert error.op.name == "joined"
        assert error.__cause__ is None, "the error says it all"
        assert error.__suppress_context__
        assert error.message.startswith(
            f"OOM when allocating tensor with shape[{3 * N}] and type float on {CPU} by allocator "
            "cpu\n\t [[{{node joined}}]]"
        )
        assert report.text() in error.message
        assert (report.request.op, report.request.bytes) == ("joined", 3 * MB)
        assert report.request.shape == (3 * N,)
        assert report.request.source.startswith(f"{__file__}:")
        assert report.live == 4 * MB
        assert {(r.op, r.kind, r.bytes) for r in report.rows} == {
            ("x", "feed", MB), ("part0", "temporary", MB),
            ("part1", "temporary", MB), ("part2", "temporary", MB),
        }  # fmt: skip
        assert all(r.source.startswith(f"{__file__}:") for r in report.rows)
        assert error.run_metadata.out_of_memory == report
        assert metadata.status.in_flight == ["joined"]
        # The session goes on, and nothing is left charged.
        assert session.run(tf.reduce_sum(x), {x: ones}) == N
        assert session._allocator.live(CPU) == 0


def test_one_byte_decides(executor):
    options, config = executor
    x, ones = feed()
    total = wide(x)
    peak = MB + 3 * MB + 3 * MB
    with limited(peak, **config) as session:
        session.run(total, {x: ones}, options=RunOptions(**options))
    with limited(peak - 1, **config) as session:
        error, _ = failing(session, total, {x: ones}, **options)
        assert error.op.name == "joined"


def test_without_the_option_the_message_is_tensorflow_s_and_the_hint_is_true(executor):
    options, config = executor
    x, ones = feed()
    total = wide(x)
    with limited(6 * MB, **config) as session:
        error, metadata = failing(session, total, {x: ones}, **options)
        assert "Live tensors" not in error.message
        assert "add report_tensor_allocations_upon_oom to RunOptions" in error.message
        assert metadata.out_of_memory is None
        assert len(metadata.allocation_log) == 0
        # The hint is true: this is what it promises.
        error, _ = failing(
            session, total, {x: ones}, report_tensor_allocations_upon_oom=True, **options
        )
        assert "Live tensors, the largest first:" in error.message


@pytest.mark.parametrize("level", ["SOFTWARE_TRACE", "FULL_TRACE"])
def test_any_trace_brings_the_report(executor, level):
    options, config = executor
    x, ones = feed()
    total = wide(x)
    with limited(6 * MB, **config) as session:
        _, metadata = failing(
            session, total, {x: ones}, trace_level=RunOptions.TraceLevel.Value(level), **options
        )
        assert check_report(metadata, 6 * MB).live == 4 * MB
        if level == "FULL_TRACE":
            rows = metadata.allocations
            assert (rows.event[-1], rows.name[-1], rows.bytes[-1]) == ("failed", "joined", 3 * MB)
            assert rows.live()[-1] == 4 * MB
            assert metadata.peak_bytes(CPU) == 4 * MB


def test_shapes_that_only_the_run_can_tell_are_refused_too(executor):
    options, config = executor
    x, ones = feed()
    kept = tf.boolean_mask(x, tf.greater(x, 0.5), name="kept")
    total = tf.reduce_sum(tf.concat([kept, kept], 0, name="twice"))
    # What is fed, the places of what is kept (int64), and what is kept.
    with limited(4 * MB - 1, **config) as session:
        error, metadata = failing(
            session, total, {x: ones}, report_tensor_allocations_upon_oom=True, **options
        )
        report = check_report(metadata, 4 * MB - 1)
        assert error.op.type == "GatherV2"
        assert (report.request.bytes, report.request.shape) == (MB, (N,))
        assert report.live == 3 * MB


def test_a_variable_s_initializer(executor):
    options, config = executor
    w = tf.Variable(tf.zeros([3 * N]), name="w")
    small = tf.Variable(tf.zeros([N]), name="small")
    with limited(4 * MB, **config) as session:
        session.run(small.initializer)
        _, metadata = failing(
            session, w.initializer, report_tensor_allocations_upon_oom=True, **options
        )
        report = check_report(metadata, 4 * MB)
        assert report.request.bytes == 3 * MB
        assert ("small", "variable", MB) in {(r.op, r.kind, r.bytes) for r in report.rows}
        assert session.run(tf.reduce_sum(small)) == 0
        assert session._allocator.live(CPU) == MB
        # A variable that cannot be assigned stays as it was.
        assert not session.run(tf.is_variable_initialized(w))


def test_a_custom_op_that_finds_no_memory_is_named(executor, own_op_types):
    options, config = executor
    takes_too_much = stepscope.register_op(
        "TakesTooMuch", lambda x: np.empty(1 << 56), inputs=["x"], shape="x"
    )
    x, ones = feed()
    y = takes_too_much(tf.add(x, 1.0, name="a"), name="hungry")
    with tf.Session(config=ConfigProto(**config)) as session:
        error, metadata = failing(
            session, y, {x: ones}, report_tensor_allocations_upon_oom=True, **options
        )
        assert error.op.name == "hungry"
        report = check_report(metadata)
        assert report.request.op == "hungry"
        assert report.request.shape == (1 << 56,)
        assert report.request.bytes == 8 << 56
        assert {(r.op, r.bytes) for r in report.rows} == {("x", MB), ("a", MB)}
        assert session.run(tf.reduce_sum(x), {x: ones}) == N


def test_what_a_custom_op_makes_is_charged(executor):
    options, config = executor
    x, ones = feed()
    y = tf.py_func(lambda v: np.concatenate([v, v, v]), [x], tf.float32, name="thrice")
    with limited(3 * MB, **config) as session:
        error, metadata = failing(
            session, tf.reduce_sum(y), {x: ones}, report_tensor_allocations_upon_oom=True,
            **options,
        )  # fmt: skip
        assert error.op.name == "thrice"
        assert check_report(metadata, 3 * MB).request.bytes == 3 * MB


def test_one_device_of_several_has_a_limit():
    x, ones = feed()
    with tf.device("/cpu:0"):
        near = tf.reduce_sum(tf.concat([x, x, x], 0, name="near"))
    with tf.device("/cpu:1"):
        far = tf.reduce_sum(tf.concat([x, x, x], 0, name="far"))
    second = CPU.replace("CPU:0", "CPU:1")
    with limited({"/cpu:1": 2 * MB}, device_count={"CPU": 2}) as session:
        session.run(near, {x: ones})
        error, metadata = failing(session, far, {x: ones}, report_tensor_allocations_upon_oom=True)
        report = check_report(metadata, 2 * MB)
        assert error.op.name == "far"
        assert report.request.device == second
        assert report.live == 0, "what is fed is on the other device"
        assert f"on {second} by allocator cpu" in error.message
        session.run(near, {x: ones})


def test_feeds_alone_can_be_too_much():
    x, ones = feed()
    total = tf.reduce_sum(x)
    with limited(MB - 1) as session:
        error, metadata = failing(session, total, {x: ones}, report_allocations_on_oom=True)
        assert error.op.name == "x"
        assert check_report(metadata, MB - 1).request.op == "x"


def test_a_queue_that_fills_up_is_what_grew(executor):
    options, config = executor
    x, ones = feed()
    queue = tf.FIFOQueue(100, [tf.float32], shapes=[[N]], name="q")
    put = queue.enqueue(tf.add(x, 1.0, name="more"), name="put")
    with limited(6 * MB, **config) as session:
        for _ in range(4):
            session.run(put, {x: ones}, options=RunOptions(**options))
        # What is fed, the sum and four elements are there; a fifth does not fit.
        _, metadata = failing(
            session, put, {x: ones}, report_tensor_allocations_upon_oom=True, **options
        )
        report = check_report(metadata, 6 * MB)
        assert ("put", "queue", 4 * MB, 4) in {
            (r.op, r.kind, r.bytes, r.tensors) for r in report.rows
        }
        session.run(queue.dequeue())
        session.run(put, {x: ones}, options=RunOptions(**options))


def test_what_grew_since_the_last_run_that_fitted():
    x = tf.placeholder(tf.float32, [None, 1024], name="x")
    hidden = tf.matmul(x, tf.constant(np.ones((1024, 1024), np.float32)), name="hidden")
    total = tf.reduce_sum(tf.nn.relu(hidden, name="active"))
    with limited(3 * MB) as session:
        session.run(total, {x: np.ones((128, 1024), np.float32)})
        error, metadata = failing(
            session, total, {x: np.ones((512, 1024), np.float32)}, report_allocations_on_oom=True
        )
        report = check_report(metadata, 3 * MB)
        assert error.op.name == "hidden"
        grown = {g.op: (g.before, g.now) for g in report.grown}
        assert grown == {"x": (128 * 4096, 512 * 4096)}
        assert "batch" in report.advice
        batch = int("".join(c for c in report.advice.split("batch")[1] if c.isdigit())[:3])
        assert 0 < batch < 512


def test_the_machine_s_own_limit_names_shape_and_op(executor):
    options, config = executor
    x, ones = feed()
    big = tf.fill([1 << 20, 1 << 20, 1 << 10], tf.reduce_sum(tf.add(x, 1.0, name="a")), name="big")
    with tf.Session(config=ConfigProto(**config)) as session:
        error, metadata = failing(
            session, tf.reduce_sum(big), {x: ones}, report_tensor_allocations_upon_oom=True,
            **options,
        )  # fmt: skip
        assert error.op.name == "big"
        assert "shape[1048576,1048576,1024] and type float" in error.message
        report = check_report(metadata)
        assert report.request.bytes == 4 << 50
        error, _ = failing(session, tf.reduce_sum(big), {x: ones}, **options)
        assert "shape[1048576,1048576,1024] and type float" in error.message
        assert session.run(tf.reduce_sum(x), {x: ones}) == N


def test_a_failed_run_keeps_no_tensor_alive():
    x, _ = feed()
    total = wide(x)
    with limited(6 * MB) as session:
        fed = np.ones(N, np.float32)
        before = sys.getrefcount(fed)
        metadata = stepscope.RunMetadata()
        gc.disable()
        try:
            with contextlib.suppress(ResourceExhaustedError):
                session.run(total, {x: fed}, options=REPORT, run_metadata=metadata)
            assert sys.getrefcount(fed) == before, "without waiting for the garbage collector"
            assert metadata.out_of_memory.live == 4 * MB
        finally:
            gc.enable()


def test_the_log_ends_with_the_request_that_failed(executor):
    options, config = executor
    x, ones = feed()
    total = wide(x)
    with limited(6 * MB, **config) as session:
        error, metadata = failing(
            session, total, {x: ones}, report_tensor_allocations_upon_oom=True,
            allocation_log_buffer_size=2, **options,
        )  # fmt: skip
        events = json.loads(stepscope.extract_allocation_log(metadata))
        assert [(e["op_name"], e["event"]) for e in events][-1] == ("joined", "failed")
        assert len(events) == 2
        (loss,) = [x for x in metadata.completeness.losses if "dropped" in x.what]
        assert loss.count == 3
        assert error.allocation_log.name.tolist()[-1] == "joined"
        assert events[-1]["dtype"] == "float32"
        assert events[-1]["shape"] == [3 * N]


def test_limits_that_make_no_sense_are_refused():
    with pytest.raises(InvalidArgumentError, match="memory_limit_bytes is 0"):
        ConfigProto(memory_limit_bytes=0)
    with pytest.raises(InvalidArgumentError, match=r"names the device '/cpu:7'.*has .*CPU:0"):
        limited({"/cpu:7": 5})
    with pytest.raises(InvalidArgumentError):
        limited({"nonsense:": 5})


def test_a_limit_travels_in_the_bytes_of_a_configuration():
    config = ConfigProto(memory_limit_bytes={"/cpu:0": 7})
    again = ConfigProto.FromString(config.SerializeToString())
    assert dict(again.memory_limit_bytes) == {"/cpu:0": 7}
    again.memory_limit_bytes = 9
    assert dict(again.memory_limit_bytes) == {"": 9}


@pytest.mark.parametrize("pooled", [False, True])
def test_eight_threads_that_run_out_of_memory(pooled, monkeypatch):
    config = {}
    if pooled:
        monkeypatch.setattr(plan, "EXPENSIVE_NS", -1)
        config["session_inter_op_thread_pool"] = [ThreadPoolOptionProto(num_threads=3)]
    x, _ = feed()
    total = wide(x)
    outcomes, wrong = [], []
    with limited(18 * MB, **config) as session:

        def work(number):
            for turn in range(12):
                metadata = stepscope.RunMetadata()
                try:
                    value = session.run(
                        total, {x: np.full(N, number, np.float32)},
                        options=REPORT if turn % 2 else None, run_metadata=metadata,
                    )  # fmt: skip
                    outcomes.append(value == number * N * 9)
                except ResourceExhaustedError as error:
                    outcomes.append(None)
                    report = metadata.out_of_memory
                    if turn % 2 and sum(r.bytes for r in report.rows) != report.live:
                        wrong.append(error)
                except BaseException as error:  # noqa: BLE001 - looked at below
                    wrong.append(error)

        threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patient(60))
        assert not wrong
        assert len(outcomes) == 96
        assert set(outcomes) <= {True, None}
        assert True in outcomes
        assert session._allocator.live(CPU) == 0
        assert session.run(total, {x: np.ones(N, np.float32)}) == 9 * N


def test_the_limit_of_the_process_in_a_process_of_its_own(tmp_path):
    script = textwrap.dedent(
        """
        import resource, sys
        import numpy as np
        import stepscope, stepscope.tf1 as tf
        n = 64 << 20
        x = tf.placeholder(tf.float32, [None], name="x")
        w = tf.Variable(tf.zeros([1 << 20]), name="w")
        parts = [tf.multiply(x, float(i), name=f"part{i}") for i in range(8)]
        total = tf.reduce_sum(tf.add_n(parts)) + tf.reduce_sum(w)
        with tf.Session() as session:
            session.run(w.initializer)
            session.run(total, {x: np.ones(1 << 18, np.float32)})
            used = int(open("/proc/self/statm").read().split()[0]) * 4096
            resource.setrlimit(resource.RLIMIT_AS, (used + (700 << 20), resource.RLIM_INFINITY))
            metadata = stepscope.RunMetadata()
            options = stepscope.RunOptions(
                report_allocations_on_oom=True, inter_op_thread_pool=int(sys.argv[1])
            )
            for turn in range(2):
                try:
                    session.run(total, {x: np.ones(n, np.float32)}, options=options,
                                run_metadata=metadata)
                    print("it fitted")
                except stepscope.errors.ResourceExhaustedError as error:
                    report = metadata.out_of_memory
                    print(error.op.name, report.request.shape, report.limit)
                    print(sum(r.bytes for r in report.rows) == report.live)
                    print(sorted((r.op, r.bytes) for r in report.rows))
                    del error
            print(session.run(total, {x: np.ones(1 << 18, np.float32)}))
        """
    )
    for pool in ("-1", "0"):
        done = subprocess.run(
            [sys.executable, "-c", script, pool], capture_output=True, text=True, check=False,
            timeout=patient(240),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert len(lines) == 7, done.stdout
        for name_and_shape, sums, rows in (lines[0:3], lines[3:6]):
            assert name_and_shape.startswith("part")
            assert name_and_shape.endswith("(67108864,) None")
            assert sums == "True"
            assert "('w', 4194304)" in rows
            assert "('x', 268435456)" in rows
        assert float(lines[6]) == sum(range(8)) * (1 << 18)


@pytest.mark.parametrize("pool", [-1, 0])
def test_the_advised_batch_fits_the_whole_run_and_is_the_largest(pool):
    def run(batch):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [None, 64], name="x")
            y, kept = x, []
            for i in range(20):
                y = tf.nn.relu(y + float(i))
                kept.append(y)
            z = tf.concat(kept, 1)
            config = stepscope.ConfigProto(memory_limit_bytes=1 << 20)
            options = stepscope.RunOptions(
                report_tensor_allocations_upon_oom=True, inter_op_thread_pool=pool
            )
            with stepscope.Session(config=config) as session:
                session.run(z, {x: np.ones((batch, 64), np.float32)}, options=options)

    with pytest.raises(stepscope.errors.ResourceExhaustedError) as failed:
        run(400)
    advice = failed.value.run_metadata.out_of_memory.advice
    fits = int(re.search(r"a batch of x of at most (\d+) instead of 400 would fit", advice)[1])
    run(fits)
    with pytest.raises(stepscope.errors.ResourceExhaustedError):
        run(fits + 1)
