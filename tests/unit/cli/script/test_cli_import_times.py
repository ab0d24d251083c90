"""Imports that take long are noted, and do and raise what they would."""

from __future__ import annotations

import sys
import traceback

import pytest

from stepscope.cli.script import import_times

BUSY = """
import time
until = time.perf_counter() + {seconds}
while time.perf_counter() < until:
    pass
"""


@pytest.fixture
def noted(monkeypatch, tmp_path):
    """The notes of imports; modules are looked for in `tmp_path`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    found = []
    stop = import_times.watch(found.append)
    yield found
    stop()
    for name in ("slow_one", "outer_one", "failing_one"):
        sys.modules.pop(name, None)


def test_a_module_is_noted_once_with_its_line_and_time(noted, tmp_path):
    (tmp_path / "slow_one.py").write_text(BUSY.format(seconds=0.004))
    import slow_one  # noqa: F401
    import slow_one as again  # noqa: F401

    [note] = noted
    assert note.what == "slow_one"
    assert note.where.startswith(f"{__file__}:")
    assert note.ns >= 4_000_000


def test_own_modules_do_not_hide_what_they_import(noted, tmp_path):
    (tmp_path / "slow_one.py").write_text(BUSY.format(seconds=0.004))
    (tmp_path / "outer_one.py").write_text("import slow_one")
    import outer_one  # noqa: F401

    inner, outer = noted
    assert (inner.what, outer.what) == ("slow_one", "outer_one")
    assert inner.where == f"{tmp_path / 'outer_one.py'}:1"
    assert outer.started_ns <= inner.started_ns <= inner.ended_ns <= outer.ended_ns


def test_an_import_that_fails_shows_the_frames_it_would(noted, tmp_path):
    (tmp_path / "failing_one.py").write_text("import time; time.sleep(0.002); 1 / 0")
    with pytest.raises(ZeroDivisionError) as failed:
        import failing_one  # noqa: F401
    files = [frame.filename for frame in traceback.extract_tb(failed.value.__traceback__)]
    assert files == [__file__, str(tmp_path / "failing_one.py")]
    assert [note.what for note in noted] == ["failing_one"]
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all") as missing:
        import no_such_module_at_all  # noqa: F401
    files = [frame.filename for frame in traceback.extract_tb(missing.value.__traceback__)]
    assert files == [__file__]
