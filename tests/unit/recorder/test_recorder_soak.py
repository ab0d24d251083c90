"""`make soak-recorder`, for a moment: what is kept survives any death."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "soak"))
import recorder_soak


@pytest.mark.parametrize("seed", [3, 4])
def test_what_was_kept_stays_kept_when_the_process_is_killed(tmp_path, seed):
    assert recorder_soak.killed(tmp_path, seed) == []


def test_what_is_counted_is_what_ran_and_the_disk_is_within_its_bound(tmp_path):
    found = recorder_soak.soaked(tmp_path, 2, "5%", seed=5)
    # In so short a time memory is not flat yet.
    assert [said for said in found if not said.startswith("memory is not flat")] == []
