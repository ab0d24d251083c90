"""The tables of all commands: they fit, and sort, filter, cut and convert alike."""

import csv
import io
import json
import os
import pty
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from patience import patient
from stepscope.cli.output import tables
from stepscope.metadata import OpColumns, Recording, RunMetadata

COLUMNS = [
    tables.Column("name", "name", style="bold"),
    tables.Column("kind", "kind", rank=1),
    tables.count_column("calls", "calls"),
    tables.time_column("ns", "time"),
    tables.size_column("bytes", "size", rank=2),
]
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), max_size=90)
ROWS = st.lists(
    st.builds(
        SimpleNamespace,
        name=NAMES,
        kind=NAMES,
        calls=st.integers(0, 10**9),
        ns=st.integers(0, 10**13),
        bytes=st.integers(0, 2**45),
        share=st.floats(0, 1),
    ),
    min_size=1,
    max_size=8,
)


def shown(rows, width, bar=""):
    text = io.StringIO()
    console = Console(file=text, width=width, highlight=False, markup=False, emoji=False)
    console.print(tables.grid(rows, COLUMNS, width, bar))
    return text.getvalue().splitlines()


@given(ROWS, st.integers(50, 200), st.sampled_from(["", "share"]))
def test_a_table_fits_and_cuts_no_number(rows, width, bar):
    lines = shown(rows, width, bar)
    assert max(map(cell_len, lines)) <= width
    text = "\n".join(lines)
    for row in rows:
        assert not row.calls or f"{row.calls:,}" in text
        assert not row.ns or tables.wording.time(row.ns) in text


@given(ROWS, st.integers(50, 200))
def test_no_letter_of_a_name_is_lost(rows, width):
    squeezed = "".join("".join(shown(rows[:1], width)).split())
    wide = "".join("".join(shown(rows[:1], 400)).split())
    for letter in set("".join(rows[0].name.split())):
        assert squeezed.count(letter) >= rows[0].name.count(letter)
    assert len(squeezed) <= len(wide) + width


def test_a_name_that_would_fill_the_screen_is_shown_at_both_ends():
    name = "first/" + "middle/" * 500 + "last"
    lines = shown([row(name)], 80)[2:]
    assert len(lines) == 9
    assert lines[0].startswith("first/middle/")
    assert lines[4].strip() == "…"
    assert lines[-1].endswith("last")


def row(name, **values):
    return SimpleNamespace(
        **{"name": name, "kind": "", "calls": 1, "ns": 1, "bytes": 1, "share": 0.5, **values}
    )


def test_names_fold_after_a_separator():
    lines = shown([row("gradients/loss_grad/SparseSoftmaxCrossEntropy", calls=12)], 50)
    assert lines[2].startswith("gradients/loss_grad/ ")
    assert lines[2].split()[1] == "12"
    assert lines[3].strip() == "SparseSoftmaxCrossEntropy"


def test_long_names_fold_between_their_words():
    lines = shown([row("_MklNativeConv2DBackpropFilterWithBias", calls=12)], 44)
    assert lines[2].split()[:2] == ["_MklNativeConv2DBackprop", "12"]
    assert lines[3].strip() == "FilterWithBias"


def test_what_matters_less_gives_way():
    rows = [row("n" * 30, kind="k" * 10)]
    assert shown(rows, 120)[0].split() == ["name", "kind", "calls", "time", "size"]
    assert shown(rows, 66)[0].split() == ["name", "kind", "calls", "time"]
    assert shown(rows, 50)[0].split() == ["name", "calls", "time"]
    assert shown([row("n")], 120)[0].split() == ["name", "calls", "time", "size"]


def test_a_bar_is_as_long_as_its_share():
    lines = shown([row("a", share=1.0), row("b", share=0.5), row("c", share=0.0)], 200, "share")
    assert [line.count("█") for line in lines[2:]] == [24, 12, 0]


def test_names_cannot_command_the_terminal():
    (line,) = shown([row("a\x1b[31mred\nnext")], 120)[2:]
    assert line.startswith(r"a\x1b[31mred\nnext")


@pytest.fixture
def saved(tmp_path):
    """Ops a to e that took 5, 1, 4, 2 and 3 us."""
    lengths = {"a": 5_000, "b": 1_000, "c": 4_000, "d": 2_000, "e": 3_000}
    columns = OpColumns.build(
        name=[f"net/{name}" for name in lengths],
        op=["Mul", "Add", "Mul", "Add", "Sub"],
        device=["/device:CPU:0"] * 5,
        thread=[1] * 5,
        scheduled_ns=[10**18 + 10_000 * i for i in range(5)],
        start_ns=[10**18 + 10_000 * i for i in range(5)],
        end_ns=[10**18 + 10_000 * i + ns for i, ns in enumerate(lengths.values())],
    )
    metadata = RunMetadata()
    metadata.record(Recording(engine="test", ops=lambda: columns))
    metadata.save(tmp_path / "run_metadata.pb")
    return "run_metadata.pb"


def names(out):
    return [line.split()[0] for line in out.splitlines() if line.startswith("net/")]


def test_a_table_that_cannot_fit_is_not_broken_into_lines(command, saved):
    _, out, _ = command("top", saved, "--by", "name", "--limit", "1", columns=24)
    heads = next(line for line in out.splitlines() if line.startswith("name"))
    assert {"calls", "self", "share", "mean"} <= set(heads.split())


def test_no_blanks_at_the_end_of_lines(command, saved):
    for name in ("info", "top", "path", "memory", "parallelism"):
        _, out, _ = command(name, saved, "--run", "0")
        assert not [line for line in out.splitlines() if line != line.rstrip()]


def test_sort_filter_and_limit(command, saved):
    by_name = ("top", saved, "--by", "name")
    assert names(command(*by_name)[1]) == ["net/a", "net/c", "net/e", "net/d", "net/b"]
    assert names(command(*by_name, "--sort", "name")[1]) == sorted(f"net/{n}" for n in "abcde")
    assert names(command(*by_name, "--sort", "mean", "--limit", 2)[1]) == ["net/a", "net/c"]
    assert names(command(*by_name, "--filter", "[bd]$")[1]) == ["net/d", "net/b"]
    out = command(*by_name, "--limit", 2)[1]
    assert "and 3 more ops (--limit 0 shows all)" in out
    assert "no op whose name matches 'zzz'" in command(*by_name, "--filter", "zzz")[1]


def test_wrong_wishes_are_explained(command, saved):
    for name in ("top", "path", "placement", "parallelism", "info"):
        code, out, err = command(name, saved, "--sort", "colour")
        assert (code, out) == (2, "")
        assert "there is no column 'colour'" in err
    code, _, err = command("top", saved, "--sort", "colour")
    assert "there is no column 'colour'; there are type, " in err
    code, out, err = command("top", saved, "--filter", "(")
    assert (code, out) == (2, "")
    assert "no regular expression" in err
    code, _, err = command("top", saved, "--json", "--csv")
    assert code == 2
    assert "exclude each other" in err


def test_csv_and_json_are_unrounded_and_whole(command, saved):
    out = command("top", saved, "--by", "name", "--csv")[1]
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [int(row["total_ns"]) for row in rows] == [5_000, 4_000, 3_000, 2_000, 1_000]
    found = json.loads(command("top", saved, "--by", "name", "--json", "--filter", "[ab]")[1])
    assert [row["key"] for row in found["rows"]] == ["net/a", "net/b"]
    assert found["self_ns"] == 15_000
    empty = command("top", saved, "--csv", "--filter", "zzz")[1].splitlines()
    assert len(empty) == 1
    assert empty[0].startswith("key,op,device,calls")


def test_csv_has_what_the_table_computes(command, saved):
    out = command("parallelism", saved, "--csv")[1]
    (thread, _) = csv.DictReader(io.StringIO(out))
    assert float(thread["fraction"]) == pytest.approx(15_000 / 43_000)
    out = command("path", saved, "--csv")[1]
    assert sum(int(row["ns"]) for row in csv.DictReader(io.StringIO(out))) == 43_000


def test_colour_is_for_terminals(saved, stepscope, tmp_path):
    assert "\x1b" not in stepscope("top", saved).stdout
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "stepscope", "top", saved],
        cwd=tmp_path, env=environment, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        while block := os.read(ours, 65536):
            seen += block
    except OSError:
        pass  # the other end of a terminal is closed so
    os.close(ours)
    assert process.wait(patient(60)) == 0
    assert b"\x1b[1m" in seen


def test_a_reader_that_goes_away_is_no_regression(tmp_path, saved):
    words = shlex.join([sys.executable, "-m", "stepscope", "top", str(saved), "--json"])
    command = f"{words}; echo ended $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | true"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    assert done.stderr.split()[-1] == "141"
