"""Stores broken as `make fuzz` breaks files: each is read, read in part, or refused."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from stepscope.metadata import Note
from stepscope.metadata.program_notes import PROCESS, TRACE
from stepscope.store import Store

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))

import corpus
import fuzz_readers


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """A store of a few runs with all that the embedded engine records, and some notes."""
    folder = tmp_path_factory.mktemp("whole")
    with Store(folder) as store:
        store.note(Note(PROCESS, 1, 9, 7, "train.py"))
        store.note(Note(TRACE, 2, 3, 7, "step", "train.py:3", {"arguments": [], "function": 1}))
        for _ in range(4):
            store.add(corpus.embedded_run(), "step")
    return store.path.read_bytes()


def test_the_store_before_it_is_broken(content, tmp_path):
    assert fuzz_readers.outcome("runs.stepscope", content, tmp_path) == "read"


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_broken_stores_are_read_in_part_or_refused(first, content, tmp_path):
    for number in range(first, first + 50):
        broken = corpus.broken(content, random.Random(number))
        assert fuzz_readers.tried(number, "runs.stepscope", broken, tmp_path)
