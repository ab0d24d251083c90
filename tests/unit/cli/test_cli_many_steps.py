"""Of very many steps that were recorded with a budget, commands read summaries and few runs."""

from __future__ import annotations

import json
import sqlite3

import pytest

import many_steps
from stepscope.analysis.sampling.explained_runs import happened
from stepscope.analysis.sampling.summed_steps import SampledRuns
from stepscope.analysis.sampling.weights import samples
from stepscope.metadata.readers.kept_file import recording_of
from stepscope.metadata.stored.step_summaries import Level

STEPS = 4000


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return many_steps.record(tmp_path_factory.mktemp("steps"), STEPS, budget="5%")


@pytest.fixture
def store(recorded):
    return recorded.store


@pytest.fixture
def steps(store, tmp_path):
    """A copy, to be damaged; commands look for it as `steps`."""
    place = tmp_path / "steps" / store.name
    place.parent.mkdir()
    place.write_bytes(store.read_bytes())
    return place


def damage(store, but=()):
    """Make all runs unreadable but some."""
    with sqlite3.connect(store) as database:
        kept = ", ".join(map(str, but))
        cursor = database.execute(
            f"UPDATE runs SET content = zeroblob(3), checksum = 0 WHERE number NOT IN ({kept})"
        )
        assert cursor.rowcount > 50
    database.close()


@pytest.mark.parametrize(
    "asked", [("top",), ("top", "--by", "name"), ("steps", "--json"), ("top", "--json")]
)
def test_these_are_answered_from_summaries_and_read_no_run(steps, command, asked):
    before = command(asked[0], "steps", *asked[1:])
    assert before[0] == 0, before[2]
    damage(steps)
    assert command(asked[0], "steps", *asked[1:])[:2] == before[:2]


def test_steps_counts_all_of_them(steps, command):
    _, output, _ = command("steps", "steps", "--json")
    found = json.loads(output)
    assert found["runs"] == STEPS
    rows = {row["key"]: row for row in found["rows"]}
    assert rows["evaluate"]["runs"] == STEPS // many_steps.EVALUATED
    assert rows["train_step"]["median_ns"] == pytest.approx(4e6, rel=0.05)
    assert rows["train_step"]["worst_ns"] > 30e6
    _, shown, _ = command("steps", "steps")
    assert f"by summaries of all of them: the length of {STEPS:,} was noted" in " ".join(
        shown.split()
    )


def test_top_is_of_all_steps_and_says_on_what_it_rests(recorded, steps, command):
    _, output, _ = command("top", "steps", "--json")
    profile = json.loads(output)
    assert profile["steps"] == STEPS
    # Each op of each step: 98 in 100 have 100 of them, the others 10.
    assert profile["calls"] == pytest.approx(STEPS * (0.98 * 100 + 0.02 * 10), rel=0.01)
    whole = sum(recorded.truth.values())
    for row in profile["rows"]:
        off = abs(row["share"] - recorded.truth[row["key"]] / whole)
        # The interval is of 19 in 20 such recordings. On a busy machine recording costs more, and
        # a slow step may be left without op times.
        assert off <= 2 * row["share_within"] + recorded.unseen / whole
    _, shown, _ = command("top", "steps")
    rests_on = f"{STEPS:,} steps, estimated from {profile['runs']:,} runs whose op times were noted"
    assert " ".join(shown.split()).startswith(rests_on)


def test_info_path_and_diff_read_the_runs_that_they_speak_of(store, steps, command):
    recording = recording_of(steps)
    sampled = [run.number for runs in samples(recording).values() for run in runs]
    looked_at = {
        "path": sampled,
        "diff": sampled,
        "info": {
            *SampledRuns(steps, recording).numbers,
            *sampled,
            *(run.number for run in happened(recording)),
        },
    }
    asked = {
        "path": ("path", "steps"),
        "info": ("info", "steps"),
        "diff": ("diff",) + ("steps",) * 2,
    }
    before = {what: command(*words) for what, words in asked.items()}
    for what, words in asked.items():
        assert before[what][0] == 0, before[what][2]
        damage(steps, looked_at[what])
        assert command(*words)[:2] == before[what][:2]
        steps.write_bytes(store.read_bytes())
    said = " ".join(before["path"][1].split())
    assert "the run of median length of a random sample of" in said
    assert "base: " in before["diff"][1]


def test_slow_steps_are_explained_by_their_op(steps, command):
    _, output, _ = command("info", "steps", "--json")
    found = json.loads(output)
    levels = {run["number"]: run["level"] for run in found["kept"]}
    slow = [run for run in found["happened"] if run["number"] % many_steps.SLOW == 0]
    assert {run["number"] for run in slow} == set(
        range(many_steps.SLOW, STEPS + 1, many_steps.SLOW)
    )
    for run in slow:
        if levels[run["number"]] >= Level.TIMES:
            assert " longer" in run["why"]
        else:
            assert "its op times were given up for the budget" in run["why"]
