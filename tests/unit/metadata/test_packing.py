"""Columns as bytes, and back."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_examples import examples
from stepscope.metadata import StringColumn
from stepscope.metadata.stored.packing import Packed, PackedDamageError, pack

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(st.characters(), max_size=8)


@given(st.lists(INT64), st.lists(st.integers(0, (1 << 64) - 1)), st.lists(TEXT))
@examples(200)
def test_everything_comes_back(numbers, addresses, texts):
    data = pack([np.array(numbers, np.int64), None, np.array(addresses, np.uint64), texts])
    packed = Packed(data)
    assert packed.numbers().tolist() == numbers
    assert packed.optional_numbers() is None
    back = packed.numbers(np.uint64)
    assert back.tolist() == addresses
    assert back.dtype == np.uint64
    assert packed.strings() == tuple(texts)


@given(st.lists(TEXT))
def test_strings_of_which_some_are_alike(texts):
    column = StringColumn.of(texts)[::-1]
    assert Packed(pack([column])).string_column().values.tolist() == texts[::-1]


def test_times_of_a_run_take_four_bytes_each():
    start = 1_700_000_000_000_000_000 + np.arange(1000) * 1_000_000
    assert len(pack([start])) < 4 * 1000 + 20


def test_equal_rows_take_none():
    assert len(pack([np.full(1_000_000, 7)])) < 20


@given(st.lists(INT64, min_size=2, unique=True), st.data())
def test_cut_bytes_are_damage(numbers, data):
    whole = pack([np.array(numbers, np.int64), ["é", "b"]])
    packed = Packed(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(PackedDamageError):  # noqa: PT012 - which of the two it is depends
        packed.numbers()
        packed.strings()


@given(st.binary(max_size=60))
def test_bytes_of_another_kind_are_damage_or_columns(data):
    with contextlib.suppress(PackedDamageError):
        assert len(Packed(data).numbers()) >= 0
    with contextlib.suppress(PackedDamageError):
        column = Packed(data).string_column()
        assert len(column.values) == len(column)
