"""`stepscope completion`: shells take the script, and complete with it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from patience import patient

BIN = Path(sys.executable).parent


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_that_shell(shell, command, tmp_path):
    code, out, _ = command("completion", shell)
    assert code == 0
    assert "stepscope" in out
    if shutil.which(shell) is not None:
        (tmp_path / "script").write_text(out)
        subprocess.run([shell, "-n", "script"], cwd=tmp_path, check=True, timeout=patient(60))


@pytest.mark.skipif(not (BIN / "stepscope").exists(), reason="the command is not installed")
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("stepscope to", "top"),
        ("stepscope top --li", "--limit"),
        ("stepscope top x --by la", "layer"),
    ],
)
def test_bash_completes(words, wanted, tmp_path):
    program = (
        'eval "$(stepscope completion bash)"\n'
        f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_stepscope_completion stepscope\necho "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=patient(60),
    )
    assert wanted in done.stdout.split(), done.stderr


def test_an_unknown_shell(command):
    code, _, err = command("completion", "cmd")
    assert code == 2
    assert "bash" in err


def test_help_has_a_line_for_each_shell(command):
    _, out, _ = command("completion", "--help")
    lines = [line.strip() for line in out.splitlines()]
    assert 'bash: eval "$(stepscope completion bash)" in ~/.bashrc' in lines
    assert "\\b" not in out
    code, _, said = command("completion")
    assert (code, said.count("Usage:")) == (2, 1)
