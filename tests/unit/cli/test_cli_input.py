"""`stepscope input` on recorded programs with a planted slow stage, on both engines."""

from __future__ import annotations

import json

import pytest

PLANTED = """\
import time
import tensorflow as tf
data = tf.data.Dataset


def slow(x):
    def wait(x):
        time.sleep(0.006 if x < 1000 else 0.03)
        return x
    y = tf.numpy_function(wait, [x], tf.int64)
    y.set_shape([])
    return y


def slowly():
    for i in range(16):
        time.sleep(0.006)
        yield i


def take(dataset):
    for _ in dataset.take(16):
        pass


take(data.range(100).map(slow))
take(data.range(1000, 1100).map(slow, num_parallel_calls=3).prefetch(2))
take(data.range(4).interleave(lambda i: data.range(50).map(slow), cycle_length=2))
take(data.from_generator(slowly, output_signature=tf.TensorSpec([], tf.int64)))
take(data.from_tensors(tf.zeros([1 << 20])).repeat().batch(8))
take(data.range(200).map(lambda x: tf.cond(x < 40, lambda: slow(x), lambda: x)).shuffle(40))
for _ in data.range(20).map(lambda x: x + 1).prefetch(4):
    time.sleep(0.004)


@tf.function
def train_step(iterator):
    return tf.reduce_sum(next(iterator))


iterator = iter(data.range(100).map(slow).batch(2))
for _ in range(16):
    train_step(iterator)
"""

QUEUE = """\
import threading, time
import tensorflow as tf
x = tf.placeholder(tf.float32, [8])
queue = tf.FIFOQueue(16, [tf.float32], shapes=[[8]])
put = queue.enqueue([x])
total = tf.reduce_sum(queue.dequeue_many(2))
with tf.Session() as session:
    def fill():
        for i in range(24):
            time.sleep(0.01)
            session.run(put, {x: [float(i)] * 8})
    thread = threading.Thread(target=fill)
    thread.start()
    for _ in range(12):
        session.run(total)
    thread.join()
"""


IN_SESSION = """import time
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
def slow(number):
    time.sleep(0.01)
    return number
def decoded(number):
    return tf.numpy_function(slow, [number], tf.int64)
data = tf.data.Dataset.range(24).map(decoded).batch(2)
{iterator}
total = tf.reduce_sum(iterator.get_next(), name="total")
with tf.Session() as session:
    {first}
    for _ in range(12):
        session.run(total)
"""
IN_FUNCTION = """import tensorflow as tf
data = tf.data.Dataset.range(24)
data = data.map(lambda n: n * 2)
@tf.function
def epoch():
    total = tf.constant(0, tf.int64)
    for n in data:
        total += n
    return total
for _ in range(3):
    epoch()
"""


@pytest.mark.parametrize(
    ("iterator", "first"),
    [
        ("iterator = tf.data.make_one_shot_iterator(data)", "pass"),
        ("iterator = data.make_initializable_iterator()", "session.run(iterator.initializer)"),
    ],
)
def test_the_stages_of_a_sessions_iterator_appear_and_what_lacks_is_said(
    stepscope, script, iterator, first
):
    program = IN_SESSION.format(iterator=iterator, first=first)
    done = stepscope("run", "--engine", "tensorflow", "--out", "out", script(program))
    assert done.returncode == 0, done.stderr
    [found] = json.loads(stepscope("input", "out", "--json").stdout)["pipelines"]
    stages = [
        (one["stage"], one["line"].rpartition(":")[2], one["function"]) for one in found["stages"]
    ]
    assert stages == [("range", "9", ""), ("map", "9", "decoded"), ("batch", "9", "")]
    assert found["where"].endswith("program.py:10")
    # The profiler may name runs by ops of the pipeline that it saw in them, too.
    assert found["taken_by"]
    assert all(name.startswith("Session.run(") for name in found["taken_by"])
    assert 0 < found["elements"] <= 12
    assert found["wait_ns"] > 0
    said = " ".join(stepscope("input", "out", columns=200).stdout.split())
    assert "elements taken by Session.run(" in said
    assert "which stage limits is not known" in said
    assert "its iterator is in the graph of a Session" in said
    assert "under `stepscope run` to have them" in said


def test_a_dataset_that_a_function_iterates_over_inside_says_what_to_do(stepscope, script):
    done = stepscope("run", "--engine", "tensorflow", "--out", "out", script(IN_FUNCTION))
    assert done.returncode == 0, done.stderr
    found = json.loads(stepscope("input", "out", "--json").stdout)["pipelines"]
    lines = {stage["line"].rpartition(":")[2] for one in found for stage in one["stages"]}
    assert {"2", "3"} <= lines
    said = " ".join(stepscope("input", "out", columns=200).stdout.split())
    assert "a tf.function iterates over it inside" in said
    assert "hand the function an iterator" in said


def test_each_planted_stage_of_a_dataset_is_named_with_its_line(stepscope, script):
    done = stepscope("run", "--engine", "tensorflow", "--out", "out", script(PLANTED))
    assert done.returncode == 0, done.stderr
    found = json.loads(stepscope("input", "out", "--json").stdout)
    pipelines = {_first_line(one): one for one in found["pipelines"]}

    def limiting(line):
        one = pipelines[line]
        stage = one["stages"][one["limit"]] if one["limit"] >= 0 else None
        return stage and (stage["stage"], stage["line"].rpartition(":")[2], stage["calls"])

    assert limiting(26) == ("map", "26", 0)
    assert limiting(27) == ("map", "27", 3)
    assert limiting(28) == ("map", "28", 0)
    assert limiting(29) == ("from_generator", "29", 0)
    assert limiting(30) == ("batch", "30", 0)
    assert limiting(32) is None  # what takes the elements is slower
    [mapped] = [s for s in pipelines[26]["stages"] if s["limits"]]
    assert 5e6 < mapped["own_ns"] < 3 * 6e6
    assert mapped["function"] == "slow"
    # Forty elements lie in the buffer of shuffle before the first one comes.
    shuffled = pipelines[31]
    assert shuffled["first_ns"] > 40 * 5e6
    assert shuffled["stages"][shuffled["first_stage"]]["stage"] == "map"
    held = {stage["stage"]: (stage["buffer"], stage["buffered"]) for stage in shuffled["stages"]}
    assert held["shuffle"][0] == 40
    assert held["shuffle"][1] > 30
    # In steps of a function the op that takes an element waits for it.
    steps = pipelines[41]
    assert steps["taken_by"] == ["train_step"]
    assert limiting(41)[:2] == ("map", "41")
    assert steps["wait_ns"] > 5e6  # a batch is made when it is asked for, in 6 ms

    info = stepscope("info", "out", columns=200).stdout
    assert "waiting for input: `map` at program.py:41" in info
    assert "between steps" in info
    # What asked for all this is no op of the program's.
    ops = json.loads(stepscope("top", "out", "--json").stdout)
    assert "IteratorGetModelProto" not in {row["key"] for row in ops["rows"]}


def _first_line(pipeline):
    """The line that the data comes from, which tells the pipelines of the program apart."""
    lines = [stage["line"].rpartition(":")[2] for stage in pipeline["stages"] if stage["line"]]
    return int(lines[0])


def test_a_queue_that_a_thread_fills_slowly(embedded, stepscope, script):
    done = embedded("--out", "out", script(QUEUE))
    assert done.returncode == 0, done.stderr
    said = stepscope("input", "out", columns=160).stdout
    assert "queue fifo_queue at program.py:4 · 12 elements taken by" in said
    assert "`Python of the thread` at program.py:5 limits" in said
    [found] = json.loads(stepscope("input", "out", "--json").stdout)["pipelines"]
    assert found["wait_ns"] > 0.5 * found["period_ns"]
    [change] = found["changes"]
    assert change["key"] == "parallel"
    assert 0 <= change["low_ns"] <= change["saves_ns"] <= change["high_ns"]


def test_a_record_without_notes_says_how_to_get_them(stepscope, tmp_path):
    from recorded_program import run

    run(0, 10, [("IteratorGetNext", 1, 9)]).save(tmp_path / "run_metadata.pb")
    said = stepscope("input", "run_metadata.pb").stdout
    assert said.startswith("1 run waited 8.00 ms in all for elements; what the stages of a dataset")
    assert "stepscope run SCRIPT" in said
