"""Runs the commands that the documentation shows, and writes what they print into it.

python docs/make_pages.py            writes pages and pictures again
python docs/make_pages.py --check    fails where a page is stale

In a page, a block that begins with ```console holds commands, each after "$ stepscope", and what
they print. They are run in `docs/questions`, on the runs recorded there, 80 columns wide, so what
they print depends on nothing but the code. The pictures are what a few of them show on a terminal.
Between the two lines "how fast" of the README stands a table of what `make bench` measured last.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import os
import re
import shlex
import sys
from pathlib import Path
from unittest import mock

from rich.console import Console
from rich.text import Text

from stepscope.cli.arguments.command_line import run_command_line

DOCS = Path(__file__).resolve().parent
QUESTIONS = DOCS / "questions"
PAGES = (
    DOCS.parent / "README.md",
    DOCS / "commands.md",
    DOCS / "cluster.md",
    *sorted(QUESTIONS.glob("*.md")),
)
PICTURES = {
    "steps": "steps recorded/base",
    "layers": "top recorded/classify --by layer --apart",
    "top": "top recorded/classify --by name --limit 8",
    "oom": "oom recorded/batches --plot",
    "parallelism": "parallelism recorded/towers",
    "diff": "diff recorded/base recorded/new --limit 5",
    "network": "network recorded/cluster --limit 8",
    "input": "input recorded/feed",
    "advise": "advise recorded/base",
    "why": "why 21 recorded/base",
    "growth": "memory --growth recorded/history",
}
RESULTS = DOCS.parent / "benchmarks" / "results.json"
HOW_FAST = {
    "chain of 1,000, Session.run": "a chain of 1,000 tiny ops, `Session.run`",
    "chain of 1,000, FULL_TRACE": "the same, `FULL_TRACE`",
    "fan of 1,000, Session.run": "a fan of 1,000 branches, `Session.run`",
    "fan of 1,000, FULL_TRACE": "the same, `FULL_TRACE`",
    "MLP 784-256-256-10, batch 32: SGD step": "a training step of an MLP, batch 32",
    "CNN 28x28, batch 50: SGD step": "a training step of a small CNN, batch 50",
}
"""Which results the README shows, and what it calls them."""
COLUMNS = 80
PICTURE_COLUMNS = 100
_BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)
_HOW_FAST = re.compile(
    r"(?<=<!-- how fast, from benchmarks/results.json -->\n)(.*?)(?=<!-- how fast -->)", re.DOTALL
)
_COMMAND = re.compile(r"^\$ (stepscope .*)$", re.MULTILINE)


def output_of(command: str, columns: int, *, colour: bool = False) -> str:
    """What a command prints, and how it ends if not with 0."""
    wanted = {"COLUMNS": str(columns), "LINES": "50", **({"FORCE_COLOR": "1"} if colour else {})}
    unwanted = {"NO_COLOR", "FORCE_COLOR", "TERM"} - set(wanted)
    environment = {k: v for k, v in os.environ.items() if k not in unwanted} | wanted
    if colour:
        environment |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    text = io.StringIO()
    with (
        contextlib.chdir(QUESTIONS),
        mock.patch.dict(os.environ, environment, clear=True),
        contextlib.redirect_stdout(text),
        contextlib.redirect_stderr(text),
    ):
        code = run_command_line(shlex.split(command))
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    return "\n".join([*lines, *([f"(exit code {code})"] if code else [])]) + "\n"


def written(page: str) -> str:
    """The page, with the output of its commands as it is now."""

    def block(match: re.Match[str]) -> str:
        commands = _COMMAND.findall(match[1])
        shown = [
            f"$ {command}\n{output_of(command.removeprefix('stepscope '), COLUMNS)}"
            for command in commands
        ]
        return "\n".join(shown) if shown else match[1]

    return _HOW_FAST.sub(lambda _: how_fast(), _BLOCK.sub(block, page))


def how_fast() -> str:
    """The table of measurements, from what was measured last."""
    measured = {row["what"]: row for row in json.loads(RESULTS.read_text())["results"]}
    lines = ["| what | ours | TensorFlow's | ratio |", "|---|--:|--:|--:|"]
    for what, called in HOW_FAST.items():
        row = measured[what]
        ours, theirs = (f"{row[side]:.2f} {row['unit']}" for side in ("ours", "theirs"))
        lines.append(f"| {called} | {ours} | {theirs} | {row['ratio']:.2f} |")
    return "\n".join([*lines, ""])


def picture_of(command: str) -> str:
    """What a command shows on a terminal, as SVG."""
    screen = Console(
        file=io.StringIO(),
        record=True,
        width=PICTURE_COLUMNS,
        force_terminal=True,
        legacy_windows=False,
    )
    screen.print(Text.assemble(("$ ", "green"), (f"stepscope {command}", "bold")))
    screen.print(Text.from_ansi(output_of(command, PICTURE_COLUMNS, colour=True)), end="")
    return screen.export_svg(title="stepscope", unique_id=command.split()[0])


def stale() -> list[str]:
    """For each page that is not as its commands print now, the difference."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        wanted = written(text)
        if text != wanted:
            name = str(page.relative_to(DOCS.parent))
            lines = difflib.unified_diff(
                text.splitlines(), wanted.splitlines(), name, "printed now", lineterm=""
            )
            found.append("\n".join(lines))
    return found


def main(arguments: list[str]) -> int:
    """Write, or check."""
    if arguments == ["--check"]:
        differences = stale()
        sys.stdout.writelines(f"{difference}\n" for difference in differences)
        return 1 if differences else 0
    for page in PAGES:
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
    for name, command in PICTURES.items():
        (DOCS / "pictures" / f"{name}.svg").write_text(picture_of(command), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
