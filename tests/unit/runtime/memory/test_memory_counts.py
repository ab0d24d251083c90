"""Live and peak bytes of small programs, against counts made by hand."""

import contextlib

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from stepscope.options import ConfigProto, RunOptions, ThreadPoolOptionProto
from stepscope.runtime.plan import plan

MB = 1 << 20
N = MB // 4
"""Floats in a megabyte."""
OPTIONS = {"trace_level": RunOptions.FULL_TRACE, "inter_op_thread_pool": -1}
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


@contextlib.contextmanager
def session(executor="inline", **config):
    """A session whose runs are inline, or on a pool with every op handed over."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(OPTIONS, "inter_op_thread_pool", -1 if executor == "inline" else 0)
        if executor == "pooled":
            patch.setattr(plan, "EXPENSIVE_NS", -1)
            config["session_inter_op_thread_pool"] = [ThreadPoolOptionProto(num_threads=2)]
        with tf.Session(config=ConfigProto(**config)) as made:
            yield made


def traced(session, fetches, feeds=None, **options):
    metadata = stepscope.RunMetadata()
    session.run(fetches, feeds, options=RunOptions(**OPTIONS | options), run_metadata=metadata)
    check(metadata)
    return metadata


def check(metadata):
    """What holds for every run that went well."""
    rows = metadata.allocations
    assert (np.diff(rows.time_ns) >= 0).all()
    assert (rows.live() >= 0).all()
    left = rows.alive_at(len(rows) - 1)
    assert set(left.kind) <= {"variable", "queue", "feed"}
    assert left.bytes.sum() == rows.live()[-1] if len(rows) else True
    at_peak = metadata.alive_at_peak()
    assert at_peak.bytes.sum() == metadata.peak_bytes()


def story(metadata, *names):
    """(event, name) of the rows of these ops, in order."""
    rows = metadata.allocations
    return [(e, n) for e, n in zip(rows.event, rows.name, strict=True) if n in names]


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def feed(shape=(N,), name="x"):
    return tf.placeholder(tf.float32, list(shape), name=name), np.ones(shape, np.float32)


def test_a_chain_writes_over_itself():
    x, ones = feed()
    y = x
    for i in range(5):
        y = tf.add(y, 1.0, name=f"a{i}")
    total = tf.reduce_sum(y, name="total")
    with session() as s:
        metadata = traced(s, total, {x: ones})
    assert metadata.peak_bytes(CPU) == MB + MB + 4
    assert metadata.allocations.live().max() == 2 * MB + 4
    assert story(metadata, "a0", "a1") == [
        ("allocate", "a0"), ("free", "a0"), ("allocate", "a1"), ("free", "a1"),
    ]  # fmt: skip


def test_memory_that_is_written_over_passes_on_in_one_instant():
    x, ones = feed()
    a = tf.add(x, 1.0, name="a")
    b = tf.add(a, 1.0, name="b")
    total = tf.reduce_sum(b)
    with session() as s:
        rows = traced(s, total, {x: ones}).allocations
    freed = int(np.flatnonzero((rows.name == "a") & (rows.event == "free"))[0])
    made = int(np.flatnonzero((rows.name == "b") & (rows.event == "allocate"))[0])
    assert made == freed + 1
    assert rows.time_ns[made] == rows.time_ns[freed]
    assert rows.address[made] == rows.address[freed]


def test_what_is_fetched_is_memory_of_its_own_until_the_run_ends():
    x, ones = feed()
    a = tf.add(x, 1.0, name="a")
    b = tf.add(a, 1.0, name="b")
    with session() as s:
        metadata = traced(s, b, {x: ones})
    assert metadata.peak_bytes() == 3 * MB
    rows = metadata.allocations
    assert rows.kind[rows.name == "b"].tolist() == ["output", "output"]
    assert story(metadata, "b")[-1] == ("free", "b")


def test_both_are_live_while_an_op_works_that_cannot_write_over_its_input():
    x, ones = feed((512, 512))
    a = tf.add(x, 1.0)
    b = tf.matmul(a, a)
    total = tf.reduce_sum(b)
    with session() as s:
        assert traced(s, total, {x: ones}).peak_bytes() == 3 * MB


def diamond():
    x, ones = feed()
    a = tf.add(x, 1.0, name="a")
    b = tf.multiply(a, 2.0, name="b")
    c = tf.multiply(a, 3.0, name="c")
    d = tf.add(b, c, name="d")
    return tf.reduce_sum(d, name="total"), {x: ones}


def test_a_diamond():
    total, fed = diamond()
    with session() as s:
        metadata = traced(s, total, fed)
    # x, a and b; c is written over a, d over b.
    assert metadata.peak_bytes() == 3 * MB


def test_a_diamond_on_a_pool_lies_between_the_least_and_the_most():
    total, fed = diamond()
    with session("pooled") as s:
        for _ in range(5):
            metadata = traced(s, total, fed)
            assert 3 * MB <= metadata.peak_bytes(CPU) <= 5 * MB + 4
            assert metadata.peak_bytes(CPU) == metadata.allocations.live(CPU).max()


def test_a_broadcast():
    row, ones = feed((512,), "row")
    column, more = feed((512, 1), "column")
    total = tf.reduce_sum(tf.add(row, column, name="both"))
    with session() as s:
        metadata = traced(s, total, {row: ones, column: more})
    assert metadata.peak_bytes() == 2048 + 2048 + MB + 4


@pytest.mark.parametrize("executor", ["inline", "pooled"])
def test_views_are_the_memory_of_what_they_show(executor):
    x, ones = feed()
    a = tf.add(x, 1.0, name="a")
    part = tf.reshape(a, [512, 512], name="square")[:256]
    total = tf.reduce_sum(tf.transpose(part, name="turned"), name="total")
    with session(executor) as s:
        metadata = traced(s, total, {x: ones})
    assert metadata.peak_bytes() == 2 * MB + 4
    assert set(metadata.allocations.name) == {"x", "a", "total"}
    assert story(metadata, "a", "total")[:3] == [
        ("allocate", "a"), ("allocate", "total"), ("free", "a"),
    ]  # fmt: skip


@pytest.mark.parametrize("executor", ["inline", "pooled"])
def test_a_view_that_has_to_be_a_copy_counts(executor):
    x, ones = feed((512, 512))
    a = tf.add(x, 1.0, name="a")
    flat = tf.reshape(tf.transpose(a), [-1], name="flat")
    total = tf.reduce_sum(flat, name="total")
    with session(executor) as s:
        metadata = traced(s, total, {x: ones})
    assert metadata.peak_bytes() == 3 * MB
    assert story(metadata, "a", "flat") == [
        ("allocate", "a"), ("allocate", "flat"), ("free", "a"), ("free", "flat"),
    ]  # fmt: skip


def test_a_reshape_of_what_is_fed_transposed_counts_too():
    x, _ = feed((512, 256))
    total = tf.reduce_sum(tf.reshape(x, [-1], name="flat"))
    with session() as s:
        turned = np.ones((256, 512), np.float32).T
        assert traced(s, total, {x: turned}).peak_bytes() == MB // 2 + MB // 2 + 4
        whole = np.ones((512, 256), np.float32)
        assert traced(s, total, {x: whole}).peak_bytes() == MB // 2 + 4


def test_one_array_fed_twice_counts_once():
    x, ones = feed(name="x")
    y, _ = feed(name="y")
    total = tf.reduce_sum(tf.add(x, y))
    with session() as s:
        assert traced(s, total, {x: ones, y: ones}).peak_bytes() == 2 * MB + 4
        assert traced(s, total, {x: ones, y: ones.copy()}).peak_bytes() == 3 * MB + 4


@pytest.mark.parametrize("executor", ["inline", "pooled"])
@pytest.mark.parametrize("resource", [True, False])
def test_a_variable_under_assignment(executor, resource):
    x, ones = feed()
    w = tf.Variable(tf.zeros([N]), name="w", use_resource=resource)
    more = tf.assign_add(w, x, name="more")
    other = tf.assign(w, tf.add(x, 1.0, name="new"), name="other")
    with session(executor) as s:
        made = traced(s, w.initializer)
        rows = made.allocations
        assert rows.bytes[rows.name == "w"].tolist() == [MB]
        assert rows.event[rows.name == "w"].tolist() == ["allocate"]
        metadata = traced(s, more.op, {x: ones})
        held = metadata.allocations
        assert held.event[held.name == "w"].tolist() == ["held"], "changed in place"
        assert held.step[held.name == "w"].tolist() == [rows.step[0]]
        assert metadata.peak_bytes() == 2 * MB
        assert traced(s, other.op, {x: ones}).peak_bytes() == 3 * MB


def summed_after_assignment(w, x, late):
    """The sum of what `late` makes of the old value of `w`, once `x` was assigned to it."""
    old = w.read_value()
    with tf.control_dependencies([old]):
        given = tf.assign(w, x)
    with tf.control_dependencies([given]):
        return tf.reduce_sum(late(old))


@pytest.mark.parametrize("executor", ["inline", "pooled"])
def test_the_old_value_of_a_variable_belongs_to_its_readers(executor):
    x, ones = feed()
    w = tf.Variable(tf.zeros([N]), name="w", use_resource=True)
    total = summed_after_assignment(w, x, lambda old: tf.add(old, 1.0, name="late"))
    with session(executor) as s:
        s.run(w.initializer)
        metadata = traced(s, total, {x: ones})
        rows = metadata.allocations
        # x, the new value, the old value that `late` reads, and what `late` makes.
        assert metadata.peak_bytes() == 4 * MB
        assert rows.live()[-1] == 2 * MB
        left = rows.alive_at(len(rows) - 1)
        assert sorted(left.name) == ["w", "x"]


@pytest.mark.parametrize("executor", ["inline", "pooled"])
def test_the_old_value_of_a_variable_changes_hands_in_one_instant(executor):
    x, ones = feed()
    w = tf.Variable(tf.zeros([N]), name="w", use_resource=True)
    total = summed_after_assignment(w, x, lambda old: old)
    with session(executor) as s:
        s.run(w.initializer)
        assert traced(s, total, {x: ones}).peak_bytes() == 3 * MB + 4, "x, new, old, the sum"


def test_a_variable_that_changes_its_shape():
    x = tf.placeholder(tf.float32, [None], name="x")
    w = tf.Variable(tf.zeros([N]), name="w", validate_shape=False, use_resource=False)
    grow = tf.assign(w, x, validate_shape=False)
    with session() as s:
        s.run(w.initializer)
        metadata = traced(s, grow.op, {x: np.ones(2 * N, np.float32)})
        rows = metadata.allocations
        assert rows.live()[-1] == 4 * MB, "what is fed, and the new value"
        assert metadata.peak_bytes() == 5 * MB, "old and new are there while it is assigned"


@pytest.mark.parametrize("executor", ["inline", "pooled"])
def test_a_queue(executor):
    x, ones = feed()
    queue = tf.FIFOQueue(4, [tf.float32], shapes=[[N]], name="q")
    put = queue.enqueue(x, name="put")
    taken = queue.dequeue(name="taken")
    total = tf.reduce_sum(taken, name="total")
    batch = tf.reduce_sum(queue.dequeue_many(2, name="batch"))
    with session(executor) as s:
        first = traced(s, put, {x: ones})
        assert first.allocations.live()[-1] == 2 * MB
        assert first.peak_bytes() == 2 * MB
        for _ in range(2):
            s.run(put, {x: ones})
        metadata = traced(s, total)
        rows = metadata.allocations
        assert rows.event[rows.name == "put"].tolist() == ["held", "held", "held", "free"]
        assert set(rows.kind[rows.name == "put"]) == {"queue"}
        assert len(set(rows.step[(rows.name == "put") & (rows.event == "held")])) == 3
        # What is taken was in the queue before: it passes on.
        assert metadata.peak_bytes() == 3 * MB + 4
        assert rows.live()[-1] == 2 * MB
        metadata = traced(s, batch)
        assert metadata.peak_bytes() == 4 * MB, "elements, and the batch made of them"
        assert metadata.allocations.live()[-1] == 0


def test_ten_megabytes_of_which_at_most_four_live_at_once():
    tensors = [tf.random_uniform([512, 512], name=f"t{i}") for i in range(3)]
    for i in range(3, 10):
        # Each needs the one before and the third before; the second before is needed next.
        tensors.append(tf.matmul(tensors[-1], tensors[-3], name=f"t{i}"))
    total = tf.reduce_sum(tf.matmul(tensors[-1], tensors[-2], name="last"))
    with session() as s:
        metadata = traced(s, total)
    rows = metadata.allocations
    made = rows.event == "allocate"
    assert sum(rows.bytes[made] == MB) >= 10
    assert metadata.peak_bytes() == 4 * MB
    assert sorted(metadata.alive_at_peak().bytes.tolist()) == [MB] * 4


def test_constants_are_not_counted():
    with session() as s:
        metadata = traced(s, tf.reduce_sum(tf.constant(np.ones(N, np.float32))))
    assert metadata.peak_bytes() == 4


def test_each_device_has_a_count_of_its_own():
    x, ones = feed()
    with tf.device("/cpu:0"):
        a = tf.add(x, 1.0, name="a")
    with tf.device("/cpu:1"):
        b = tf.matmul(tf.reshape(a, [512, 512]), tf.reshape(a, [512, 512]), name="b")
        total = tf.reduce_sum(b, name="total")
    with session(device_count={"CPU": 2}) as s:
        metadata = traced(s, total, {x: ones})
    rows = metadata.allocations
    assert set(rows.device[rows.name == "a"]) == {CPU}
    assert set(rows.device[rows.name == "b"]) == {CPU.replace("CPU:0", "CPU:1")}
    assert metadata.peak_bytes(CPU) == 2 * MB
    assert metadata.peak_bytes(CPU.replace("CPU:0", "CPU:1")) == MB + 4
    assert metadata.peak_bytes() == 3 * MB


def test_the_outputs_of_an_identity_n_die_one_by_one():
    x, ones = feed()
    a, b = tf.identity_n([tf.add(x, 1.0, name="a"), tf.add(x, 2.0, name="b")])
    first = tf.reduce_sum(a, name="first")
    with tf.control_dependencies([first]):
        second = tf.reduce_sum(tf.matmul(*[tf.reshape(b, [512, 512])] * 2), name="second")
    with session() as s:
        metadata = traced(s, [first, second], {x: ones})
    assert story(metadata, "a", "second").index(("free", "a")) < story(
        metadata, "a", "second"
    ).index(("allocate", "second"))
    assert metadata.peak_bytes() == 3 * MB + 4


def test_what_nobody_reads_is_freed_when_its_op_ends():
    x, ones = feed()
    unread = tf.add(x, 1.0, name="unread")
    with tf.control_dependencies([unread]):
        total = tf.reduce_sum(x, name="total")
    with session() as s:
        metadata = traced(s, total, {x: ones})
    assert story(metadata, "unread", "total")[:2] == [("allocate", "unread"), ("free", "unread")]
    assert metadata.peak_bytes() == 2 * MB


@pytest.mark.parametrize("executor", ["inline", "pooled"])
def test_shapes_that_only_the_run_can_tell(executor):
    x, ones = feed()
    kept = tf.boolean_mask(x, tf.greater(x, 0.5), name="kept")
    total = tf.reduce_sum(tf.add(kept, 1.0, name="more"), name="total")
    with session(executor) as s:
        ones[N // 2 :] = 0
        rows = traced(s, total, {x: ones}).allocations
    assert rows.bytes[(rows.name == "more") & (rows.event == "allocate")].tolist() == [MB // 2]


def test_a_custom_op_counts_what_it_makes(own_op_types):
    double = stepscope.register_op(
        "CountedDouble", lambda x: np.concatenate([x, x]), shape=lambda s: [2 * int(s[0])]
    )
    x, ones = feed()
    total = tf.reduce_sum(double(x, name="twice"), name="total")
    with session() as s:
        metadata = traced(s, total, {x: ones})
    assert metadata.peak_bytes() == 3 * MB + 4
    assert story(metadata, "twice") == [("allocate", "twice"), ("free", "twice")]


def test_a_trace_survives_saving(tmp_path):
    total, fed = diamond()
    with session() as s:
        metadata = traced(s, total, fed)
    metadata.save(tmp_path / "run.pb")
    loaded = stepscope.load(tmp_path / "run.pb")
    loaded = loaded if isinstance(loaded, stepscope.RunMetadata) else loaded[0]
    assert loaded.peak_bytes(CPU) == 3 * MB
    assert loaded.allocations.name.tolist() == metadata.allocations.name.tolist()
