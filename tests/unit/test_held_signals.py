"""Signals that wait while our own code has something in hand."""

import itertools
import signal
import sys
import threading

import pytest

from stepscope import held_signals as module
from stepscope.held_signals import held_signals, let_go
from stepscope.recorder.budget import Level
from stepscope.recorder.controller import Lull
from stepscope.recorder.lanes import RunLane, ThreadTimes


@pytest.fixture(autouse=True)
def pythons_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def interrupted_at(place, file):
    """Control-C, once, at a place at which Python looks for signals in that file's code."""
    left = place

    def profile(frame, event, argument):
        nonlocal left
        if event in ("call", "c_return") and frame.f_code.co_filename == file and left:
            left -= 1
            if not left:
                signal.raise_signal(signal.SIGINT)

    return profile


def everywhere(call, file):
    """Make a call with Control-C at the first place, the second and so on, and once with none.

    Gives for each of them whether it was raised.
    """
    raised = [True]
    while raised[-1]:
        profile = interrupted_at(len(raised), file)
        sys.setprofile(profile)
        try:
            call()
            raised.append(False)
        except KeyboardInterrupt:
            raised.append(True)
        finally:
            sys.setprofile(None)
    return raised[1:]


def test_what_comes_meanwhile_is_raised_at_the_end():
    done = []

    def ours():
        with held_signals:
            with held_signals:
                signal.raise_signal(signal.SIGINT)
            done.append("all")

    with pytest.raises(KeyboardInterrupt):
        ours()
    assert done == ["all"]


def test_the_programs_own_code_is_interrupted_at_once():
    done = []

    def program():
        signal.raise_signal(signal.SIGINT)
        done.append("went on")

    with held_signals:
        with pytest.raises(KeyboardInterrupt):
            let_go(program)
        done.append("handed over")
    assert done == ["handed over"]


def test_who_insists_does_not_wait():
    done = []

    def ours():
        with held_signals:
            signal.raise_signal(signal.SIGINT)
            done.append("held")
            signal.raise_signal(signal.SIGINT)
            done.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        ours()
    assert done == ["held"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_programs_own_handler_is_called_with_a_frame(monkeypatch):
    told = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: told.append((number, frame)))
    try:
        with held_signals:
            signal.raise_signal(signal.SIGALRM)
            assert not told
        ((number, frame),) = told
        assert (number, type(frame)) == (signal.SIGALRM, type(sys._getframe()))
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_handler_of_the_programs_that_is_put_in_place_meanwhile_stays():
    mine = lambda number, frame: None  # noqa: E731
    with held_signals:
        let_go(lambda: signal.signal(signal.SIGINT, mine))
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is mine


def test_other_threads_hold_nothing():
    found = []

    def other():
        with held_signals:
            found.append(signal.getsignal(signal.SIGINT))
            found.append(let_go(lambda: "called"))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler, "called"]


def test_wherever_it_comes_what_was_begun_is_ended():
    ended, begun = [], []

    def recorded():
        with held_signals:
            begun.append(0)
            try:
                let_go(int)
            finally:
                ended.append(0)

    raised = everywhere(recorded, module.__file__)
    assert len(raised) > 20
    assert raised == [True] * (len(raised) - 1) + [False]
    assert len(ended) == len(begun) > 10


def test_each_run_of_a_lull_is_noted_once_wherever_it_comes():
    told, ran = [], []
    lane = RunLane("step", ThreadTimes(), itertools.count(), told.append, lambda lane: None)
    lane.open(Lull(Level.LENGTH, 10**15, 0, float("inf"), float("inf")), 0)

    def run():
        began = lane.begins()
        if began:
            try:
                ran.append(0)
                lane.ended(began, "engine")
            except BaseException:
                lane.failed(began, "CANCELLED", "engine")
                raise

    raised = everywhere(run, sys.modules[RunLane.__module__].__file__)
    assert len(raised) > 3
    noted, _ = lane.take()
    assert len(noted) + len(told) == len(ran)
