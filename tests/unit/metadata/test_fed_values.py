"""Which feeds never change."""

import numpy as np
import pytest

from stepscope.metadata.fed_values import FedValues


def counts(*values):
    fed = FedValues()
    for value in values:
        fed.add([("x:0", value)])
    return fed.note().details["feeds"].get("x:0", [0, 0, 0])[:2]


LARGE = np.arange(100_000, dtype=np.float32)


def test_the_same_array_is_the_same():
    assert counts(LARGE, LARGE, LARGE) == [3, 2]


@pytest.mark.parametrize("times", [16, 17, 100])
def test_the_same_array_many_times(times):
    assert counts(*[LARGE] * times) == [times, times - 1]
    assert counts(*[LARGE] * times, LARGE.copy(), LARGE) == [times + 2, times // 16 * 16 - 1]


def test_an_array_that_is_written_to_late_is_seen_to_change():
    written = LARGE.copy()
    fed = FedValues()
    for step in range(100):
        if step == 50:
            written += 1
        fed.add([("x:0", written)])
    times, same, _ = fed.note().details["feeds"]["x:0"]
    assert times == 100
    assert 15 <= same < 50


def test_an_array_that_was_written_to_is_another():
    written = LARGE.copy()
    fed = FedValues()
    for step in range(3):
        written += step
        fed.add([("x:0", written)])
    assert fed.note().details["feeds"] == {"x:0": [3, 0, 400_000]}


def test_a_small_array_of_equal_content_is_the_same():
    assert counts(*[np.ones((16, 16)) for _ in range(4)]) == [4, 3]


def test_a_large_array_of_equal_content_may_be_another():
    assert counts(LARGE, LARGE.copy()) == [2, 0]


@pytest.mark.parametrize(
    "value", [3.0, [1, 2], np.ones(4), np.array(["a"] * 1000, object)], ids=repr
)
def test_small_and_odd_values_are_left_alone(value):
    assert counts(value, value) == [0, 0]


def test_views_that_are_not_in_order_are_compared():
    assert counts(LARGE[::2], LARGE[::2]) == [2, 0]
    turned = np.ones((300, 300)).T
    assert counts(turned, turned) == [2, 1]
