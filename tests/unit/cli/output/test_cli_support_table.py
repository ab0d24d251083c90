"""The generated page of what each engine supports."""

import subprocess
import sys
from pathlib import Path

from stepscope.cli.output.support_table import engines, support_page
from stepscope.options import run_option_fields

PAGE = Path(__file__).parents[4] / "docs" / "support.md"


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "stepscope.cli.output.support_table", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_page_in_the_docs_is_what_the_code_says():
    done = command("--check", PAGE)
    assert done.returncode == 0, done.stderr


def test_a_stale_page_is_shown_with_what_changed(tmp_path):
    page = tmp_path / "deep" / "support.md"
    assert command(page).returncode == 0
    assert command("--check", page).returncode == 0
    page.write_text(page.read_text().replace("`trace_level`", "`trace_depth`"))
    done = command("--check", page)
    assert done.returncode == 1
    assert "-| `trace_depth`" in done.stderr
    assert "+| `trace_level`" in done.stderr
    assert "make docs" in done.stderr


def test_every_engine_has_a_row_for_every_option():
    tables = engines()
    assert list(tables) == [
        "embedded",
        "TensorFlow session",
        "TensorFlow function",
        "TensorFlow eager",
        "TensorFlow cluster",
    ]
    for support in tables.values():
        assert set(run_option_fields()) <= set(support)


def test_a_page():
    page = support_page(
        {
            "one": {"trace_level": ("yes", ""), "x|y": ("refused", "comes later")},
            "two": {"trace_level": ("yes", "in part")},
        }
    )
    assert "| field | one | two |" in page
    assert "| `trace_level` | yes | yes |" in page
    assert "| `x\\|y` | refused | - |" in page
    assert "## Notes: one\n\n- `x|y`: comes later\n" in page
    assert "## Notes: two\n\n- `trace_level`: in part\n" in page
