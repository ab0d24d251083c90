"""Running somebody's script as Python itself would: as `__main__`, with its own arguments.

Guarantees:

- the script finds `__name__`, `__file__`, `sys.argv` and `sys.path[0]` as `python script.py` has
  them, and `sys.modules["__main__"]` is its module (pickle and multiprocessing look there);
- what it prints is not touched; an exception that it does not catch is shown by `sys.excepthook`
  (its own, if it set one) with a traceback that begins in the script;
- its end is returned as an exit status, never raised, so that the caller can still do its work.

Nothing is put back afterwards: threads and exit handlers of the script may still need it all.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from stepscope.errors import StepscopeError
from stepscope.own_code import without_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

INTERRUPTED = 130
"""What a shell reports of a program that was ended by Ctrl-C."""


class Script:
    """A script that was found and read. `StepscopeError` where that is not possible."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._source = _read(Path(path))

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return Path(self.path).stem

    @property
    def source(self) -> bytes:
        """What the file holds."""
        return self._source

    def run(
        self,
        arguments: Sequence[str],
        failed: Callable[[BaseException], None] | None = None,
    ) -> Any:
        """Run it to its end and return its exit status: what `SystemExit` carries.

        1 after an exception that it did not catch, 130 after Ctrl-C; `failed` is told of it first.
        The traceback that is shown leaves out our own frames, unless the error was raised there.
        """
        try:
            self._execute(arguments)
        except SystemExit as exit:
            return exit.code
        except BaseException as error:  # noqa: BLE001
            if failed is not None:
                failed(error)
            self._show(error)
            return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
        return 0

    def _execute(self, arguments: Sequence[str]) -> None:
        # Python keeps argv[0] as it was given, and makes the others absolute.
        sys.argv[:] = [self.path, *arguments]
        if not sys.flags.safe_path:
            sys.path[0] = str(Path(self.path).resolve().parent)
        main = ModuleType("__main__")
        main.__dict__.update(
            __file__=os.path.abspath(self.path),  # noqa: PTH100
            __builtins__=builtins,
            __cached__=None,
        )
        # The module that was `__main__` must live on: its functions are on the stack below us.
        self._caller = sys.modules["__main__"]
        sys.modules["__main__"] = main
        code: CodeType = compile(self._source, main.__file__ or "", "exec", dont_inherit=True)
        exec(code, main.__dict__)

    def _show(self, error: BaseException) -> None:
        sys.stdout.flush()
        trace = without_ours(_below_this_module(error.__traceback__))
        sys.excepthook(type(error), error.with_traceback(trace), trace)


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise StepscopeError(f"{path} is a directory; name the script to run inside it")
    try:
        with io.open_code(str(path.absolute())) as file:
            return file.read()
    except FileNotFoundError:
        raise StepscopeError(
            f"there is no script {path} (looked in {path.absolute().parent})"
        ) from None
    except OSError as error:
        raise StepscopeError(f"the script {path} cannot be read: {error.strerror}") from error


def _below_this_module(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames that led to the script."""
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    return trace
