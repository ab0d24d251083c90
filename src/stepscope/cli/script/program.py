"""Running somebody's program as Python itself would: as `__main__`, with its own arguments.

Guarantees:

- the program finds `__name__`, `__file__`, `__spec__`, `sys.argv` and `sys.path[0]` as
  `python script.py` or `python -m module` has them, and `sys.modules["__main__"]` is its module
  (pickle and multiprocessing look there);
- what it prints is not touched; an exception that it does not catch is shown by `sys.excepthook`
  (its own, if it set one) with a traceback that begins in the program;
- its end is returned as an exit status, never raised, so that the caller can still do its work;
- nothing of it, nor of the packages it lies in, is imported before `run`;
- the garbage collector has no more to look through than it would have without us.

Nothing is put back afterwards: threads and exit handlers of the program may still need it all.
"""

from __future__ import annotations

import builtins
import gc
import importlib.util
import io
import os
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from stepscope.cli.script.program_imports import find_statically
from stepscope.errors import StepscopeError
from stepscope.own_code import without_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

INTERRUPTED = 130
"""What a shell reports of a program that was ended by Ctrl-C."""


def _leave_to_the_program() -> None:
    """Have the garbage collector pass over all that is there: it is ours, and stays.

    Its full collections come when the program would have them, and take as long. With nothing left
    to look through, this one sets back to nothing what their turn is reckoned from.
    """
    gc.freeze()
    gc.collect()


class FoundProgram(ABC):
    """A program that was found. `StepscopeError` where there is none."""

    name: str
    """What it is called in paths: a file's name without its ending, a module's whole name."""
    package: str = ""
    """The package that its main module lies in, for imports that begin with a dot."""

    @property
    @abstractmethod
    def source(self) -> bytes:
        """The text of its main module; empty where that has none (it is compiled)."""

    @abstractmethod
    def _prepare(self) -> tuple[ModuleType, str, CodeType]:
        """The main module to be, what `sys.argv[0]` is, and the code; may import packages."""

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
        _leave_to_the_program()
        main, first_argument, code = self._prepare()
        sys.argv[:] = [first_argument, *arguments]
        # The module that was `__main__` must live on: its functions are on the stack below us.
        self._caller = sys.modules["__main__"]
        sys.modules["__main__"] = main
        exec(code, main.__dict__)

    def _show(self, error: BaseException) -> None:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
        # TensorFlow leaves its own frames out, and so may end its tracebacks with one of ours.
        theirs = type(error).__module__.partition(".")[0] in ("tensorflow", "keras")
        trace = without_ours(_below_this_module(error.__traceback__), raised=not theirs)
        sys.excepthook(type(error), error.with_traceback(trace), trace)


class Script(FoundProgram):
    """A file, as `python script.py` runs it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = Path(path).stem
        self._source = _read(Path(path))

    @property
    def source(self) -> bytes:
        """What the file holds."""
        return self._source

    def _prepare(self) -> tuple[ModuleType, str, CodeType]:
        if not sys.flags.safe_path:
            sys.path[0] = str(Path(self.path).resolve().parent)
        # Python keeps argv[0] as it was given, and makes the others absolute.
        file = os.path.abspath(self.path)  # noqa: PTH100
        main = _main_module(__file__=file, __cached__=None)
        return main, self.path, compile(self._source, file, "exec", dont_inherit=True)


class ModuleProgram(FoundProgram):
    """A module or a package with a `__main__`, as `python -m name` runs it."""

    def __init__(self, name: str) -> None:
        self.name = name
        if not sys.flags.safe_path:
            sys.path[0] = _working_directory()
        spec = find_statically(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_statically(f"{name}.__main__")
            if spec is None:
                raise StepscopeError(
                    f"-m {name}: it is a package without a __main__, which python -m cannot run "
                    "either; name a module inside it"
                )
        if spec is None:
            hint = f"; for a file leave out -m: {name}" if name.endswith(".py") else ""
            raise StepscopeError(
                f"-m {name}: there is no module of that name (looked in "
                f"{sys.path[0] or 'the working directory'} and in the installed packages){hint}"
            )
        self.package = spec.parent or ""
        self._found = spec

    @property
    def source(self) -> bytes:
        """The text of the module that runs, which for a package is its `__main__`."""
        origin = Path(self._found.origin or "")
        return origin.read_bytes() if origin.suffix == ".py" else b""

    def _prepare(self) -> tuple[ModuleType, str, CodeType]:
        # Importing what it lies in is a part of running it, and may change what is found.
        spec = importlib.util.find_spec(self._found.name)
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(f"No module named {self._found.name!r}", name=self.name)
        code = spec.loader.get_code(spec.name)  # type: ignore[attr-defined]
        if code is None:
            raise ImportError(f"No code object available for {spec.name}", name=spec.name)
        main = _main_module(
            __file__=spec.origin,
            __cached__=spec.cached,
            __loader__=spec.loader,
            __package__=spec.parent,
            __spec__=spec,
        )
        return main, spec.origin or "", code


def _main_module(**attributes: Any) -> ModuleType:
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, **attributes)
    return main


def _working_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        return ""


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise StepscopeError(f"{path} is a directory; name the script to run inside it")
    try:
        with io.open_code(str(path.absolute())) as file:
            return file.read()
    except FileNotFoundError:
        raise StepscopeError(f"there is no script {path} (looked in {_folder(path)})") from None
    except OSError as error:
        raise StepscopeError(f"the script {path} cannot be read: {error.strerror}") from error


def _folder(path: Path) -> str:
    try:
        return str(path.absolute().parent)
    except FileNotFoundError:
        return "the working directory, which was removed"


def _below_this_module(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames that led to the program."""
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    return trace
