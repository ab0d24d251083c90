"""The task that is slower than the others, by the median length of its steps."""

from stepscope.analysis.cluster.task_times import StepTimes, TaskTimes


def times(*steps):
    found = TaskTimes()
    found.steps = [StepTimes("", max(tasks.values()), tasks) for tasks in steps]
    return found.slowest()


def test_a_task_that_takes_longer_in_most_steps():
    usual = {"worker:0": 100, "worker:1": 110, "worker:2": 180}
    assert times(usual, usual, {**usual, "worker:0": 900}) == ("worker:2", 180, 110)


def test_none_is_named_among_equals_or_of_two():
    assert times({"worker:0": 100, "worker:1": 110, "worker:2": 115}) is None
    assert times({"worker:0": 100, "worker:1": 900}) is None
