"""Every command on every kind of readable file, letter by letter, at 80 and at 160 columns.

To accept a change: STEPSCOPE_ACCEPT=1 pytest tests/golden, then look at the difference in git.
"""

import gzip
import os
import re
import shutil
from pathlib import Path

import pytest

from small_profile import write_profile
from stepscope.cli.arguments.command_line import run_command_line

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RECORDED = ROOT / "docs" / "questions" / "recorded"
DATA = ROOT / "tests" / "data"
COMMANDS = (
    "info FILE",
    "steps FILE",
    "top FILE --limit 3",
    "path FILE --limit 3",
    "placement FILE --limit 3",
    "parallelism FILE --limit 3",
    "memory FILE --limit 2",
    "memory FILE --growth",
    "memory FILE --flame --limit 2",
    "oom FILE --limit 2",
    "coverage FILE --limit 3",
    "network FILE --limit 3",
    "account FILE",
    "retraces FILE",
    "input FILE",
    "why MatMul FILE --limit 3",
    "why 0 FILE --limit 3",
    "why peak FILE --limit 2",
    "advise FILE",
    "diff FILE FILE --limit 2",
    "timeline FILE -o out.json",
    "merge FILE -o out.json",
    "export FILE --to csv -o out.csv",
)


def trace(name, run):
    assert run_command_line(["timeline", str(run), "-o", name]) == 0


def an_old_timeline():
    run = str(DATA / "rnn_while_v1" / "run_metadata.pb")
    assert run_command_line(["timeline", "--tf1", run, "-o", "old.json"]) == 0
    Path("old.json.gz").write_bytes(gzip.compress(Path("old.json").read_bytes(), mtime=0))


def a_profile():
    write_profile(Path("vm.xplane.pb"))


def copied(source, target):
    (shutil.copytree if source.is_dir() else shutil.copy)(source, target)


KINDS = {
    "run_metadata.pb": lambda: copied(DATA / "mlp_adam_refvars/run_metadata.pb", "run_metadata.pb"),
    "cluster": lambda: copied(DATA / "distributed_ps_worker", "cluster"),
    "saved.pb": lambda: copied(RECORDED / "classify/run_000002/run_metadata.pb", "saved.pb"),
    "classify": lambda: copied(RECORDED / "classify", "classify"),
    "batches": lambda: copied(RECORDED / "batches", "batches"),
    "optimised": lambda: copied(RECORDED / "optimised", "optimised"),
    "logdir": lambda: copied(RECORDED / "base", "logdir"),
    "trace.json": lambda: trace("trace.json", RECORDED / "classify"),
    "old.json.gz": an_old_timeline,
    "vm.xplane.pb": a_profile,
}


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("file", KINDS)
def test_what_every_command_shows(file, columns, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    KINDS[file]()
    capsys.readouterr()
    shown = []
    for command in COMMANDS:
        code = run_command_line(command.replace("FILE", file).split())
        said = capsys.readouterr()
        assert code in (0, 2), said.err
        assert max(map(len, said.out.splitlines()), default=0) <= columns, command
        lines = [f"$ stepscope {command.replace('FILE', file)}", said.out + said.err]
        shown.append("\n".join([*lines, *([f"(exit code {code})"] if code else [])]))
    text = re.sub(r" +$", "", "\n".join(shown), flags=re.MULTILINE)
    path = HERE / "every_file" / f"{file}_{columns}.txt"
    if os.environ.get("STEPSCOPE_ACCEPT"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
