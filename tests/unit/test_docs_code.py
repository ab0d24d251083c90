"""Every block of code in the README and the tutorials does what the page says.

A tutorial is worked through from top to bottom in an empty folder, as a reader would:

- a block with a title (`python title="train.py"`) is a file that the reader makes;
- a Python block without one is run, after those before it on the page;
- of a `console` block each `$` line is run; the words that the page shows below it must be among
  those that it prints (figures differ from machine to machine), and it must end with 0, or as the
  line `(exit code 1)` says.
"""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from patience import patient

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([\w.]+)"')
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
EXIT_CODE = re.compile(r"\(exit code (\d+)\)\n")
WORD = re.compile(r"[^\W\d]{4,}")
NOT_RUN = {"yaml"}
"""Kinds of blocks that show a file of another program."""


class Reader:
    """Somebody who follows a page."""

    def __init__(self, folder):
        self.folder = folder
        self.typed = []
        bin_of_this = str(Path(sys.executable).parent)
        self.environment = {
            **os.environ, "PATH": os.pathsep.join([bin_of_this, os.environ["PATH"]]),
            "COLUMNS": "80",
        }  # fmt: skip

    def follow(self, kind, title, text):
        if title:
            (self.folder / title).write_text(text, encoding="utf-8")
        elif kind == "python":
            self.typed.append(text)
            self.run([sys.executable, "-c", "\n".join(self.typed)], 0)
        elif kind == "console":
            found = COMMAND.findall(text)
            assert found, f"no command in:\n{text}"
            for command, shown in found:
                code = EXIT_CODE.search(shown)
                printed = self.run(["sh", "-c", command], int(code[1]) if code else 0)
                missing = set(WORD.findall(EXIT_CODE.sub("", shown))) - set(WORD.findall(printed))
                assert not missing, f"{command} does not say {missing}, but:\n{printed}"
        else:
            assert kind in NOT_RUN, f"a block of {kind or 'no kind'} that nothing runs:\n{text}"

    def run(self, command, code):
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=patient(240),
        )  # fmt: skip
        assert done.returncode == code, (
            f"{command[-1]}\nended with {done.returncode}:\n{done.stdout}"
        )
        return done.stdout


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_can_be_followed(page, tmp_path):
    text = page.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert blocks
    if "import tensorflow as tf" in text and importlib.util.find_spec("tensorflow") is None:
        pytest.skip("needs the real TensorFlow")
    reader = Reader(tmp_path)
    for kind, rest, code in blocks:
        title = TITLE.search(rest)
        reader.follow(kind, title and title[1], code)


def test_the_commands_of_the_readme(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [
        line.split("#")[0].split()
        for _, _, code in BLOCK.findall(text)
        for line in code.splitlines()
    ]
    (installing, *first), making = lines[:-2], lines[-2:]
    assert installing == ["pip", "install", "stepscope"]  # test_wheel.py tries it
    assert making == [["make", "demo"], ["make", "test"]]
    for command in making:
        subprocess.run([*command, "--dry-run"], cwd=ROOT, check=True, capture_output=True)

    reader = Reader(tmp_path)
    reader.follow("python", "train.py", (ROOT / "examples" / "demo.py").read_text(encoding="utf-8"))
    running, advising, viewing = first
    assert "smooth" in reader.run([*running, "--steps", "9"], 0)
    assert "smooth" in reader.run(advising, 0)
    with subprocess.Popen(
        [*viewing, "--no-browser"],
        cwd=tmp_path,
        env=reader.environment,
        text=True,
        stdout=subprocess.PIPE,
    ) as viewer:
        try:
            address = next(word for line in viewer.stdout for word in line.split() if "://" in word)
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with browser.open(address, timeout=patient(60)) as page:
                assert b"stepscope" in page.read()
        finally:
            viewer.send_signal(signal.SIGINT)
            viewer.wait(patient(60))
