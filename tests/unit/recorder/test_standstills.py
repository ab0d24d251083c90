"""When the process did not run, though it wanted to."""

from __future__ import annotations

import doctest
import threading

from patience import patient
from stepscope.recorder import standstills
from stepscope.recorder.standstills import Standstills, interval_ns


def test_the_worked_example():
    assert doctest.testmod(standstills).failed == 0


def test_a_thread_that_wakes_up_late_has_seen_a_standstill():
    # The clock jumps by 70 ms once, while the thread waits.
    readings = [0, 20_000_000, 21_000_000, 110_000_000, 111_000_000]
    read = threading.Event()

    def clock():
        if len(readings) == 1:
            read.set()
            return readings[0]
        return readings.pop(0)

    looking = Standstills(0.05, clock)
    assert read.wait(patient(20))
    looking.close()
    assert looking.found() == [(41_000_000, 110_000_000)]
    assert looking.count == 1
    assert not [thread for thread in threading.enumerate() if "standstills" in thread.name]


def test_a_smaller_budget_looks_less_often_and_none_does_not_stop_looking():
    assert interval_ns(0.01) > interval_ns(0.05) == interval_ns(float("inf"))
