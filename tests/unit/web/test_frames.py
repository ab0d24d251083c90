"""Values as bytes, and back."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from stepscope.metadata.strings import StringColumn
from stepscope.web.frames import MAGIC, as_json, decoded, encoded


@given(
    st.lists(arrays.arrays(st.sampled_from([np.int64, np.float64, np.uint8]), st.integers(0, 9))),
    st.text(max_size=40),
)
def test_any_arrays_come_back(columns, text):
    frame = encoded({"columns": columns, "text": text})
    assert frame[:4] == MAGIC
    assert (8 + int.from_bytes(frame[4:8], "little")) % 8 == 0
    found = decoded(frame)
    assert found["text"] == text
    for before, after in zip(columns, found["columns"], strict=True):
        np.testing.assert_array_equal(before.astype(np.float64), after.astype(np.float64))


def test_whole_numbers_travel_in_the_least_type_that_holds_them():
    frame = encoded(
        [np.array(v, np.int64) for v in ([0, 255], [65535], [-1], [1 << 31], [1 << 40])]
    )
    assert [a.dtype.str for a in decoded(frame)] == ["|u1", "<u2", "<i4", "<u4", "<f8"]


def test_what_analyses_return_is_taken_for_what_it_holds():
    @dataclasses.dataclass
    class Row:
        name: str
        ns: np.int64

    value = {"row": Row("a\udcff", np.int64(7)), "missing": float("nan"),
             "kind": StringColumn.of(["x", "y", "x"])}  # fmt: skip
    found = decoded(encoded(value))
    assert found["row"] == {"name": "a\\xff", "ns": 7}
    assert found["missing"] is None
    assert (found["kind"]["table"], found["kind"]["codes"].tolist()) == (["x", "y"], [0, 1, 0])
    assert as_json({"a": np.array([1.5, np.inf])}) == b'{"a":[1.5,null]}'


def test_a_name_is_never_taken_for_an_array():
    with pytest.raises(ValueError, match="names for keys"):
        encoded({"$": 3})
    with pytest.raises(ValueError, match="no frame"):
        decoded(b"{}")
