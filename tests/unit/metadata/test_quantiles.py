"""Quantiles of a sketch against exact ones."""

from __future__ import annotations

import doctest

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.metadata.stored import quantiles
from stepscope.metadata.stored.quantiles import ACCURACY, QuantileSketch, QuantileSketches

NUMBERS = st.lists(st.integers(1, 10**12), min_size=1, max_size=200)


def exact(numbers: list[int], q: float) -> int:
    """The number of that rank; a sketch is within its accuracy of this one."""
    return sorted(numbers)[int(q * (len(numbers) - 1))]


def sketch_of(numbers: list[int]) -> QuantileSketch:
    sketch = QuantileSketch()
    for number in numbers:
        sketch.add(number)
    return sketch


@given(NUMBERS, st.floats(0, 1))
def test_a_quantile_is_within_a_hundredth_of_the_exact_one(numbers, q):
    found = sketch_of(numbers).quantile(q)
    assert abs(found - exact(numbers, q)) <= ACCURACY * 1.001 * exact(numbers, q) + 1


@given(NUMBERS, NUMBERS)
def test_sketches_of_parts_add_up_to_that_of_the_whole(some, others):
    merged, whole = sketch_of(some), sketch_of(some + others)
    merged.merge(sketch_of(others))
    assert merged.counts == whole.counts
    assert (merged.count, merged.total, merged.most) == (whole.count, whole.total, whole.most)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 10**12)), min_size=1), st.floats(0, 1))
def test_many_series_at_once_are_as_each_alone(pairs, q):
    together, parts = QuantileSketches(), QuantileSketches()
    series, values = (np.array(column) for column in zip(*pairs, strict=True))
    together.add(series, values)
    for place in range(0, len(pairs), 7):
        part = QuantileSketches()
        part.add(series[place : place + 7], values[place : place + 7])
        parts.merge(part)
    found = together.quantile(q, 5)
    assert np.array_equal(found, parts.quantile(q, 5))
    for one in range(5):
        numbers = [value for which, value in pairs if which == one]
        wanted = exact(numbers, q) if numbers else 0
        assert abs(found[one] - wanted) <= ACCURACY * 1.001 * wanted + 1


def test_a_sketch_stays_small():
    chance = np.random.default_rng(1)
    sketch = sketch_of((chance.lognormal(15, 1, 100_000)).astype(int).tolist())
    assert len(sketch.counts) < 600


def test_the_worked_examples():
    assert doctest.testmod(quantiles).failed == 0
