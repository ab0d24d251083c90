"""The `stepscope` command. Only this room prints and sets exit codes.

One file per command: the file's `command` is what `stepscope <file>` does, its docstring is the
help. To add one, add the file and its line in `COMMANDS` (in `arguments/command_line.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (`sys.argv` without arguments) and exit with its code.

    0: done. 1: a regression (`diff --fail-on`). 2: wrong usage, or a file that is not there or
    cannot be read or written. The exit code of `stepscope run` is that of the script.
    """
    from stepscope.cli.script.earlier_imports import early

    # Loading the command is a part of what recording costs.
    early.watch()
    from stepscope.cli.arguments.command_line import run_command_line

    raise SystemExit(run_command_line(arguments, own_process=True))
