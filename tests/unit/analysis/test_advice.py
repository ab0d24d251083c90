"""What to change in a program, and what came of a change."""

import pytest
from analysed_runs import T0, run_of

from stepscope.analysis import advise, steps
from stepscope.analysis.advice.check import chosen, step_check
from stepscope.errors import InvalidArgumentError
from stepscope.metadata.program_notes import CallTime

LINES = {"wide": "train.py:8", "back": "train.py:9", "x": "train.py:7"}
MS = 1_000_000


def step(cast_ms, *, work_ms=10):
    """A step that casts a tensor there and back, if that takes time, and works."""
    rows, at, before = [], 0, "x"
    parts = [("x", "Tanh", work_ms), ("wide", "Cast", cast_ms), ("back", "Cast", cast_ms)]
    for name, kind, long in parts:
        if not long:
            continue
        rows.append((name, kind, [before] if name != "x" else [], 7, at, at, at + long * MS))
        at, before = at + long * MS, name
    return run_of(*rows, sources=lambda: LINES, call=CallTime(T0, T0 + at, 7))


def recorded(*runs):
    return [(f"run_{i:06d} train", run) for i, run in enumerate(runs)]


OLD = recorded(*[step(5)] * 8)


def test_a_finding_has_its_line_its_gain_and_what_was_seen():
    (found,) = advise(OLD).rows
    assert (found.id, found.line, found.step) == ("copies@train.py:8", "train.py:8", "train")
    assert found.gain == pytest.approx(10 * MS, rel=0.05)
    assert found.low < 10 * MS < found.high
    assert found.share == pytest.approx(0.5, abs=0.03)
    assert [(one.what, one.ns) for one in found.evidence] == [("wide", 5 * MS), ("back", 5 * MS)]
    assert "would save" in found.sentence
    assert found.error == 0


def test_a_program_without_copies_gets_no_finding():
    assert advise(recorded(*[step(0)] * 8)).rows == ()


def test_what_was_achieved_is_compared_with_what_was_predicted():
    finding = chosen(advise(OLD), "copies")
    kept = step_check(finding, steps(OLD), steps(recorded(*[step(0)] * 8)))
    assert (kept.before, kept.after, kept.achieved) == (20 * MS, 10 * MS, 10 * MS)
    assert kept.inside
    assert kept.error < 0.05
    missed = step_check(finding, steps(OLD), steps(recorded(*[step(4)] * 8)))
    assert (missed.achieved, missed.inside) == (2 * MS, False)


def test_a_finding_that_there_is_not_is_an_error_that_names_those_there_are():
    with pytest.raises(InvalidArgumentError, match=r"its findings: copies@train\.py:8"):
        chosen(advise(OLD), "leak")


def test_advice_shows_itself_in_a_notebook():
    shown = advise(OLD)._repr_html_()
    assert "copies@train.py:8" in shown
    finding = chosen(advise(OLD), "copies")
    assert "predicted" in step_check(finding, steps(OLD), steps(OLD))._repr_html_()
