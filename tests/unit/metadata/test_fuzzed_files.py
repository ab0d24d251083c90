"""The first inputs of `make fuzz`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))

import corpus
import fuzz_readers


@pytest.mark.parametrize("first", range(0, 1000, 250))
def test_broken_files_are_read_in_part_or_refused(first, tmp_path):
    for number in range(first, first + 250):
        name, data = corpus.mutated(number)
        assert fuzz_readers.tried(number, name, data, tmp_path)


def test_the_files_before_they_are_broken(tmp_path):
    for name, data in corpus.seeds():
        assert fuzz_readers.outcome(name, data, tmp_path) == "read"


@pytest.mark.parametrize("number", [18544, 63764, 68083])
def test_inputs_that_once_failed(number, tmp_path):
    name, data = corpus.mutated(number)
    assert fuzz_readers.tried(number, name, data, tmp_path)
