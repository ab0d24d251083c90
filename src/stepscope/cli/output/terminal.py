"""Where everything that the command line says goes out: to a terminal, a file or a pipe.

Names, devices, tags, paths and messages come from files that anybody may have written. Guarantees:

- no character of them does anything but be seen: whatever is printed through `console` or `echo`
  has control characters, escape sequences and overrides of direction made visible. Lines stay
  lines, so a name that goes into a sentence goes through `wording.plain` first;
- text that the output's encoding does not have is written in another way, and is no error: our own
  drawing in ASCII, all else as escapes;
- what is for programs (`write_data`) is UTF-8 whatever the encoding of the output, and exact;
- output that was closed by whoever holds it is not an error either.

No other module of the command line writes to standard output or standard error.
"""

from __future__ import annotations

import contextlib
import io
import sys
from typing import IO, TYPE_CHECKING, Any

from stepscope.metadata.readable import plain_lines, writable

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "echo", "flush", "write_data"]

_ASCII = str.maketrans(
    "─│└┤├╌▏▕…·→▲░▒▓█▁▂▃▄▅▆▇▉▊▋▌▍▎µ−",
    "-|+||-||~*>^.:%#__.-=*%#*==-.u-",
)
"""What our own drawing becomes where the output has no such characters; as wide as before."""


def console(*, stderr: bool = False) -> Console:
    """The terminal, or the file or pipe in its place: then without colour and 80 columns wide."""
    from stepscope.cli.output.screen import Screen

    file = _Output(sys.stderr if stderr else sys.stdout)
    return Screen(file=file, highlight=False, markup=False, emoji=False, soft_wrap=False)  # type: ignore[arg-type]


def echo(text: str, *, err: bool = False) -> None:
    """Print lines as they are, neither folded nor styled."""
    output = _Output(sys.stderr if err else sys.stdout)
    output.write(plain_lines(text) + "\n")
    output.flush()


def write_data(text: str) -> None:
    """Write what another program reads: UTF-8, every character as it is."""
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    binary.write(writable(text).encode())
    binary.flush()


def flush() -> None:
    """Have what was printed so far come before what is printed elsewhere, if it can."""
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdout.flush()


class _Output:
    """An output stream that takes any text, and that nobody minds being closed."""

    def __init__(self, stream: IO[str] | None) -> None:
        # None: a script took it away.
        self._stream = io.StringIO() if stream is None else stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def isatty(self) -> bool:
        return not self._closed and self._stream.isatty()

    def write(self, text: str) -> int:
        if not self._closed:
            self._stream.write(self._writable(text))
        return len(text)

    def flush(self) -> None:
        if not self._closed:
            self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def _closed(self) -> bool:
        return bool(getattr(self._stream, "closed", False))

    def _writable(self, text: str) -> str:
        try:
            text.encode(self._encoding)
        except UnicodeEncodeError:
            return "".join(map(self._in_its_encoding, text))
        except LookupError:
            pass
        return text

    def _in_its_encoding(self, character: str) -> str:
        try:
            character.encode(self._encoding)
        except UnicodeEncodeError:
            drawn = character.translate(_ASCII)
            return drawn if drawn.isascii() else character.encode("unicode_escape").decode()
        return character
