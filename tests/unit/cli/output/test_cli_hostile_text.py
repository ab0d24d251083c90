"""Names, devices, messages and paths that are out to do harm: nothing of them is executed."""

from __future__ import annotations

import csv
import html.parser
import io
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from stepscope.analysis import op_profile, placement
from stepscope.cli.arguments.command_line import run_command_line
from stepscope.cli.output import terminal
from stepscope.cli.output.terminal import console
from stepscope.export import csv as export_csv
from stepscope.metadata import Completeness, Loss, OpColumns, Recording, RunMetadata, Status
from stepscope.metadata.outcome import InFlight, Placement
from stepscope.metadata.readable import plain

EVIL = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202etxt.exe\u2028\x85\u2066x\nstepscope: forged"
"""Title, clear screen, C1, an override of direction, line separators, and a line of its own."""
HARMLESS = set("\n")
ENCODINGS = ("ascii", "cp1252", "latin-1", "utf-8", "utf-16")


def hostile_run(*, fails: bool = True) -> RunMetadata:
    """A run whose every text is hostile."""
    name = f"op{EVIL}"
    columns = OpColumns.build(
        name=[name, f"other{EVIL}"], op=[f"Type{EVIL}", "=HYPERLINK(1)"],
        device=[f"/job:a{EVIL}/task:0/device:CPU:0", f"/device:GPU:0{EVIL}"],
        scheduled_ns=np.array([10**18, 10**18]), start_ns=np.array([10**18, 10**18 + 500]),
        end_ns=np.array([10**18 + 1000, 10**18 + 2000]), thread=np.array([1, 2]),
        thread_names={1: f"thread{EVIL}", 2: "@SUM(A1)"},
        label=[f"{name} = Type{EVIL}(a{EVIL})", "other"],
    )  # fmt: skip
    asked, given = f"/device:X{EVIL}", f"/device:Y{EVIL}"
    placements = (Placement(name, f"T{EVIL}", asked, given, EVIL),)
    run = RunMetadata()
    run.record(
        Recording(
            engine=f"engine{EVIL}",
            status=Status("INTERNAL", f"broke {EVIL}", (InFlight(name, "running", 5),))
            if fails
            else Status(),
            completeness=Completeness((Loss(f"things{EVIL}", 3, f"because{EVIL}"),)),
            ops=lambda: columns,
            placements=lambda: placements,
            sources=lambda: {name: f"/a{EVIL}/b.py:3"},
        )
    )
    return run


@pytest.fixture
def hostile(tmp_path):
    """A directory of runs with a hostile name, which is not even UTF-8."""
    folder = tmp_path / os.fsdecode(EVIL.replace("/", "").encode() + b"\xff")
    for number in range(2):
        (folder / f"run_{number}{EVIL}").mkdir(parents=True)
        hostile_run().save(folder / f"run_{number}{EVIL}" / "run_metadata.pb")
    (folder / f"bad{EVIL}run_metadata.pb").write_bytes(b"no such thing")
    return folder


def run(monkeypatch, *arguments, encoding="utf-8"):
    """Exit code, stdout and stderr of a command whose output has this encoding."""
    streams = {n: io.TextIOWrapper(io.BytesIO(), encoding=encoding) for n in ("stdout", "stderr")}
    with monkeypatch.context() as changed:
        for name, stream in streams.items():
            changed.setattr(sys, name, stream)
        code = run_command_line([str(a) for a in arguments])
        for stream in streams.values():
            stream.flush()
    return code, *(stream.buffer.getvalue() for stream in streams.values())


COMMANDS = [
    ("info",), ("info", "--run", "0"), ("top",), ("top", "--by", "name"), ("top", "--by", "device"),
    ("top", "--by", "thread"), ("top", "--by", "source"), ("top", "--by", "layer"),
    ("top", "--by", "function"), ("steps",), ("path",), ("parallelism",),
    ("placement",), ("placement", "--different"), ("network",), ("memory",), ("oom",),
    ("coverage",), ("top", "--filter", EVIL + "("), ("top", "--sort", EVIL), ("info", "--run", "9"),
    ("export", "--to", EVIL), (EVIL,),
]  # fmt: skip


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_nothing_that_comes_out_is_a_command_to_a_terminal(arguments, hostile, monkeypatch):
    _, out, err = run(monkeypatch, arguments[0], hostile, *arguments[1:])
    for said in (out.decode(), err.decode()):
        assert {c for c in said if not c.isprintable()} <= HARMLESS
        assert not [line for line in said.splitlines() if line.startswith("stepscope: forged")]
        assert "error of Stepscope's own" not in said


@pytest.mark.parametrize(
    "kind",
    [
        "chrome",
        "csv",
        "csv-allocations",
        "parquet",
        "pprof",
        "tensorboard",
        "xplane",
    ],
)
def test_exports_of_it_end_well(kind, hostile, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(monkeypatch, "export", hostile, "--to", kind)
    assert code == 0, err
    assert {c for c in (out + err).decode() if not c.isprintable()} <= HARMLESS


def test_a_diff_in_markdown_is_only_text(hostile, monkeypatch, tmp_path):
    for side in ("base", "new"):
        for number in range(8):
            metadata = hostile_run(fails=False)
            metadata.save(tmp_path / side / f"{number}_run_metadata.pb")
    places = tmp_path / "base", tmp_path / "new"
    for more in ((), ("--markdown",)):
        code, out, err = run(monkeypatch, "diff", *places, *more)
        assert code == 0, err
        assert {c for c in out.decode() if not c.isprintable()} <= HARMLESS


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("command", ["info", "top", "parallelism", "path", "placement"])
def test_an_output_that_is_not_utf8_takes_everything(command, encoding, hostile, monkeypatch):
    code, out, _ = run(monkeypatch, command, hostile, encoding=encoding)
    assert code == 0
    assert "stepscope" in out.decode(encoding) or out.decode(encoding)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_our_own_drawing_has_an_ascii_form(encoding, hostile, monkeypatch):
    _, out, _ = run(monkeypatch, "top", hostile, encoding=encoding)
    lines = out.decode(encoding).splitlines()
    assert any(re.fullmatch("-{40,}", line) for line in lines)
    assert "\\u2500" not in out.decode(encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_json_is_exact_and_utf8_whatever_the_output(encoding, hostile, monkeypatch):
    code, out, _ = run(monkeypatch, "top", hostile, "--by", "name", "--json", encoding=encoding)
    assert code == 0
    assert f"op{EVIL}" in [row["key"] for row in json.loads(out.decode())["rows"]]


def test_names_of_runs_in_json_are_text(hostile, monkeypatch):
    one = hostile / os.fsdecode(b"\xfe")
    (hostile / f"run_0{EVIL}").rename(one)
    code, out, _ = run(monkeypatch, "info", one / "run_metadata.pb", "--json")
    assert code == 0
    (row,) = json.loads(out)["rows"]
    assert row["run"] == "run_metadata"
    code, out, _ = run(monkeypatch, "info", hostile, "--json")
    assert code == 0
    assert "\\xfe" in [row["run"] for row in json.loads(out)["rows"]]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "＝1"])
def test_cells_of_csv_are_no_formulas(text, monkeypatch, tmp_path):
    columns = OpColumns.build(
        name=[text], op=[f"{text}T"], device=[text], scheduled_ns=np.array([-5]),
        start_ns=np.array([-5]), end_ns=np.array([5]), thread=np.array([-7]),
    )  # fmt: skip
    metadata = RunMetadata()
    metadata.record(Recording(engine="x", ops=lambda: columns))
    export_csv([(text, metadata)], tmp_path / "x.csv")
    (row,) = csv.DictReader(io.StringIO((tmp_path / "x.csv").read_bytes().decode(), newline=""))
    assert [row["run"], row["name"], row["op"]] == [f"'{text}", f"'{text}", f"'{text}T"]
    assert row["thread"] == "-7"
    assert int(row["start_ns"]) == -5

    metadata.save(tmp_path / "run_metadata.pb")
    _, out, _ = run(monkeypatch, "top", tmp_path, "--by", "name", "--csv")
    (row,) = csv.DictReader(io.StringIO(out.decode(), newline=""))
    assert row["key"] == f"'{text}"
    _, out, _ = run(monkeypatch, "top", tmp_path, "--by", "name", "--json")
    assert json.loads(out)["rows"][0]["key"] == text


def test_a_notebook_shows_what_would_not_be_seen():
    metadata = hostile_run()
    for shown in (metadata, op_profile(metadata, "name"), placement(metadata)):
        text = shown._repr_html_()
        html.parser.HTMLParser().feed(text)
        assert {c for c in text if not c.isprintable()} <= HARMLESS
        assert "\\x1b[2J" in text


def test_styled_text_is_made_visible_too(monkeypatch):
    from rich.table import Table
    from rich.text import Text

    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    grid = Table.grid()
    grid.add_row("c\x9bd\u202e", Text("\x1b[2J", style="bold"))
    console().print(grid)
    console().print(Text.assemble(("a\x1b[2J", "red"), "x"), "\x9b")
    assert {c for c in stream.getvalue() if not c.isprintable()} <= HARMLESS
    assert stream.getvalue().startswith("c\\x9bd\\u202e")
    assert stream.getvalue().endswith("a\\x1b[2Jx \\x9b\n")


def test_plain_keeps_what_can_be_seen():
    assert plain("tower_0/größe 数 é 🙂") == "tower_0/größe 数 é 🙂"
    assert plain("a\udcff") == "a\\xff"
    assert plain("a\ud800") == "a\\ud800"


@pytest.mark.parametrize(
    "closing", ["sys.stdout.close()", "sys.stderr.close()", "sys.stdout = None"]
)
def test_output_that_a_script_closed_is_no_error_of_ours(closing, script, embedded):
    done = embedded(script(f"import sys\n{closing}\n"))
    assert done.returncode == 0
    assert "own" not in done.stderr


def test_what_the_command_line_says_goes_out_in_one_place():
    writing = re.compile(
        r"click\.s?echo\(|(?<![.\w])print\(|sys\.std(out|err)\.(buffer\.)?write|print_exc"
    )
    folder = Path(terminal.__file__).parents[1]
    found = [f.name for f in folder.rglob("*.py") if writing.search(f.read_text())]
    assert sorted(found) == ["screen.py", "terminal.py"]
