"""Threads that stop together."""

import threading
import time

import pytest

import stepscope.tf1 as tf
from stepscope.errors import OutOfRangeError


def start(target, *args):
    thread = threading.Thread(target=target, args=args, daemon=True)
    thread.start()
    return thread


def test_threads_stop_together():
    coord = tf.train.Coordinator()
    counts = [0, 0]

    def count(i):
        while not coord.should_stop():
            counts[i] += 1
            if i == 0 and counts[0] == 20:
                coord.request_stop()
            time.sleep(0.001)

    threads = [start(count, i) for i in range(2)]
    coord.join(threads)
    assert counts[0] >= 20
    assert coord.joined
    assert coord.should_stop()
    assert not any(thread.is_alive() for thread in threads)
    coord.clear_stop()
    assert not coord.should_stop()
    assert not coord.joined


def test_join_raises_the_first_error():
    coord = tf.train.Coordinator()
    first = ValueError("first")

    def fail():
        with coord.stop_on_exception():
            raise first

    coord.register_thread(start(fail))
    assert coord.wait_for_stop(10)
    coord.request_stop(KeyError("second"))
    with pytest.raises(ValueError, match="first"):
        coord.raise_requested_exception()
    with pytest.raises(ValueError, match="first") as raised:
        coord.join()
    assert raised.value is first
    with pytest.raises(KeyError, match="late"):
        coord.request_stop(KeyError("late"))


@pytest.mark.parametrize(
    ("clean", "error"),
    [
        (None, OutOfRangeError(None, None, "end")),
        ([StopIteration], StopIteration()),
    ],
)
def test_the_end_of_the_input_is_no_error(clean, error):
    coord = tf.train.Coordinator(clean)
    coord.request_stop((type(error), error, None))
    coord.join([])
    assert coord.should_stop()


def test_threads_that_do_not_stop():
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="stubborn", daemon=True)
    thread.start()
    coord = tf.train.Coordinator()
    coord.request_stop()
    with pytest.raises(RuntimeError, match="threads still running: stubborn"):
        coord.join([thread], stop_grace_period_secs=0.05)
    coord.clear_stop()
    coord.request_stop()
    coord.join([thread], stop_grace_period_secs=0.05, ignore_live_threads=True)
    release.set()
    thread.join()


def test_nobody_asks_to_stop():
    coord = tf.train.Coordinator()
    assert not coord.wait_for_stop(0.01)
    coord.join([start(time.sleep, 0.01)])
    assert not coord.should_stop()


def test_looper_thread():
    coord = tf.train.Coordinator()
    calls = []

    def call(what):
        calls.append(what)
        if len(calls) == 3:
            coord.request_stop()

    tf.train.LooperThread.loop(coord, 0.001, target=call, args=("tick",))
    coord.join()
    assert calls == ["tick"] * 3
    with pytest.raises(ValueError, match="must be a Coordinator"):
        tf.train.LooperThread(None, 1)
