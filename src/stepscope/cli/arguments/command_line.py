"""The group of commands, and how their errors reach the user."""

from __future__ import annotations

import errno
import os
import shlex
import sys
import traceback
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from stepscope.errors import OpError, StepscopeError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "account": "Where the wall clock of a whole program went.",
    "advise": "What to change, and what that would gain.",
    "completion": "Completion for bash, zsh and fish.",
    "coverage": "Why an op has no time of its own.",
    "diff": "Is the new program slower or larger? A gate for CI.",
    "export": "Runs as .pb, .xplane.pb, CSV, Parquet, TensorBoard or Chrome files.",
    "info": "What a file or directory holds.",
    "input": "What input pipelines did, and which stage limits.",
    "memory": "Live bytes over time, and who held the peak.",
    "merge": "Runs of several steps and workers as one timeline.",
    "network": "What moved between tasks, and who waited for it.",
    "oom": "Why a run ran out of memory.",
    "parallelism": "How busy threads and devices were, and what waited.",
    "path": "What decided how long a run took.",
    "placement": "On which device each op ran, and why there.",
    "prepare": "Make traces of TensorFlow cheaper on this machine.",
    "report": "Write runs as one HTML file that opens anywhere.",
    "retraces": "Which functions were traced again, and by what.",
    "run": "Run a script, unchanged, and record its runs.",
    "steps": "What ran, how often, and how long it took.",
    "timeline": "Runs as a Chrome trace.",
    "top": "Which ops, layers or lines took the time.",
    "view": "Look at runs in the browser.",
    "why": "The chain of causes of an op, a run or memory.",
}
"""Each is a module of this package with a `command`; what the list of commands says of it."""

USAGE_ERROR = 2
INTERRUPTED = 130
BROKEN_PIPE = 141


class _Commands(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"stepscope.cli.{cmd_name}").command
        command.short_help = COMMANDS[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands as click does, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Options and commands that begin so, without importing any command."""
        names = (item for item in sorted(COMMANDS.items()) if item[0].startswith(incomplete))
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=said) for name, said in names), *options]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            # Where a script closed it, or took it away, nobody waits for it.
            if sys.stdout is not None and not sys.stdout.closed:
                sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read our output has gone: nothing may be written at exit either. Left to
            # click, this would end with 1, which says something else.
            _drop_output()
            raise SystemExit(BROKEN_PIPE) from None
        return result

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and args[0].endswith(".py"):
            line = f"stepscope run {shlex.quote(args[0])}"
            raise click.UsageError(f"{args[0]} is no command; to run a script: {line}", ctx)
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = get_close_matches(args[0], COMMANDS, n=1)
            meant = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(COMMANDS)}"
            raise click.UsageError(f"{args[0]} is no command{meant}", ctx)
        return super().resolve_command(ctx, args)


def _show_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from stepscope.cli.output import terminal

        terminal.echo(f"stepscope {version('stepscope')}")
        ctx.exit()


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND] [ARGS]...",  # what newer versions of click say by themselves
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: stepscope run --steps 10:15 train.py",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.pass_context
def commands(ctx: click.Context) -> None:
    """See what one run of a dataflow program did.

    `stepscope run` records the runs of a script; the other commands read what it wrote
    (.stepscope), and what TensorFlow and TensorBoard write: run_metadata.pb, event files, Chrome
    traces, .xplane.pb, and directories of them.

    Exit codes: 0 done; 1 a regression (diff --fail-on); 2 wrong usage, or a file that is not there
    or cannot be read or written; 130 interrupted. `run` ends as its script does.
    """
    if ctx.invoked_subcommand is None:
        from stepscope.cli.output import terminal

        terminal.echo(ctx.get_help())


def run_command_line(arguments: Sequence[str] | None = None, *, own_process: bool = False) -> Any:
    """Run a command and return its exit code; errors for the user go to stderr, no traceback.

    Whatever goes wrong ends with 2: 1 says that a program became slower. With `own_process` this
    process is there for the command alone, and `run` may fork it and let go of its files.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Closed by whoever called: what would be said there is wanted by nobody.
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123
    try:
        code = commands.main(
            None if arguments is None else list(arguments),
            prog_name="stepscope",
            complete_var="_STEPSCOPE_COMPLETE",
            standalone_mode=False,
            obj=own_process,
        )
    except click.UsageError as error:
        usage = "" if error.ctx is None else f"{error.ctx.get_usage()}\n"
        return _fail(error.format_message(), usage)
    except click.ClickException as error:
        return _fail(error.format_message())
    except (StepscopeError, OpError) as error:
        return _fail(str(error))
    except click.Abort:
        return INTERRUPTED
    except OSError as error:
        if _is_nowhere():
            return _fail("the working directory was removed; change to one that is there")
        if not _is_of_output(error):
            return _fail_unforeseen()
        _drop_output()
        return _fail(f"the output cannot be written: {error.strerror or error}")
    except Exception:  # noqa: BLE001
        return _fail_unforeseen()
    return 0 if code is None else code


def _is_of_output(error: OSError) -> bool:
    """Whether writing to standard output failed: commands say themselves what file they cannot."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF)


def _is_nowhere() -> bool:
    """Whether the directory that we were called in is gone: no relative path means anything."""
    try:
        Path.cwd()
    except OSError:
        return True
    return False


def _drop_output() -> None:
    """Write nothing more, also not what is still buffered, which Python would try at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail_unforeseen() -> int:
    from stepscope.cli.output import terminal

    terminal.echo(traceback.format_exc().rstrip(), err=True)
    return _fail("this is an error of Stepscope's own; please report it with the lines above")


def _fail(message: str, before: str = "") -> int:
    from stepscope.cli.output import terminal

    # A line of the message, which may be a name's, must not look like one of ours.
    first, *others = message.split("\n")
    lines = [f"{before}stepscope: error: {first}", *(f"  {line}" for line in others)]
    terminal.flush()
    terminal.echo("\n".join(lines), err=True)
    return USAGE_ERROR
