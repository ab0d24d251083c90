"""What the commands show of fixed files, letter by letter, at 80 and at 160 columns.

To accept a change: STEPSCOPE_ACCEPT=1 pytest tests/golden, then look at the difference in git.
"""

import os
from pathlib import Path

import pytest

from stepscope.cli.arguments.command_line import run_command_line

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CASES = {
    "top_op": ["top", "recorded/classify"],
    "top_name": ["top", "recorded/classify", "--by", "name", "--limit", "10"],
    "top_layer": ["top", "recorded/classify", "--by", "layer", "--apart"],
    "top_distributed": ["top", "data/distributed_ps_worker", "--by", "name"],
    "steps": ["steps", "recorded/base"],
    "path": ["path", "recorded/towers"],
    "path_distributed": ["path", "data/distributed_ps_worker", "--limit", "0"],
    "placement": ["placement", "recorded/towers"],
    "placement_distributed": ["placement", "data/distributed_ps_worker", "--limit", "8"],
    "parallelism": ["parallelism", "recorded/towers"],
    "parallelism_distributed": ["parallelism", "data/distributed_ps_worker"],
    "coverage": ["coverage", "recorded/optimised", "--run", "1"],
    "coverage_missing": ["coverage", "recorded/classify", "--missing", "--limit", "8"],
    "diff": ["diff", "recorded/base", "recorded/new", "--limit", "8"],
    "diff_markdown": ["diff", "recorded/base", "recorded/new", "--markdown"],
    "info": ["info", "recorded/batches"],
    "info_run": ["info", "recorded/batches", "--run", "-1"],
    "info_logdir": ["info", "recorded/base", "--limit", "3"],
    "memory_runs": ["memory", "recorded/classify", "--limit", "5"],
    "memory_flame": ["memory", "recorded/classify", "--flame"],
    "memory_at": ["memory", "recorded/classify", "--run", "3", "--at", "200us"],
    "memory_growth": ["memory", "recorded/base", "--growth"],
    "oom_runs": ["oom", "recorded/batches"],
    "why_op": ["why", "loss", "recorded/base"],
    "why_run": ["why", "run", "21", "recorded/base"],
    "why_byte": ["why", "peak", "recorded/classify", "--limit", "5"],
    "why_distributed": ["why", "upd", "data/distributed_ps_worker"],
    "help": ["--help"],
}


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("name", CASES)
def test_what_the_command_shows(name, columns, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("recorded").symlink_to(ROOT / "docs" / "questions" / "recorded")
    Path("data").symlink_to(ROOT / "tests" / "data")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert run_command_line(CASES[name]) == 0
    text = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()) + "\n"
    path = HERE / f"{name}_{columns}.txt"
    if os.environ.get("STEPSCOPE_ACCEPT"):
        path.write_text(text)
    assert text == path.read_text()
    if name != "diff_markdown":
        assert max(map(len, text.splitlines())) <= columns
