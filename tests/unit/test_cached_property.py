"""A property that is kept with its object, and for which no other object's readers wait."""

import threading

from patience import patient
from stepscope.cached_property import cached_property


class Read:
    def __init__(self, wait=None):
        self.wait = wait
        self.begun = threading.Event()
        self.times = 0

    @cached_property
    def value(self):
        """What was read."""
        self.times += 1
        self.begun.set()
        if self.wait is not None:
            self.wait()
        return [self.times]


def test_it_is_made_once_and_can_be_dropped():
    read = Read()
    assert read.value is read.value
    assert read.times == 1
    del read.value
    assert read.value == [2]
    assert Read.value.__doc__ == "What was read."


def test_an_object_is_not_waited_for_by_those_who_look_at_another():
    go_on = threading.Event()
    slow, quick = Read(lambda: go_on.wait(patient(60))), Read()
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(("slow", slow.value)), daemon=True),
        threading.Thread(target=lambda: found.append(("quick", quick.value)), daemon=True),
    ]
    threads[0].start()
    assert slow.begun.wait(patient(20))
    threads[1].start()
    threads[1].join(patient(20))
    assert found == [("quick", [1])]
    go_on.set()
    threads[0].join(patient(20))
    assert found[1:] == [("slow", [1])]


def test_all_who_look_at_one_object_at_once_are_given_the_same():
    both = threading.Barrier(2)
    read = Read(lambda: both.wait(patient(20)))
    found = []
    threads = [threading.Thread(target=lambda: found.append(read.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1] is read.value
