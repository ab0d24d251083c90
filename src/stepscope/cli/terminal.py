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
import re
import sys
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from stepscope.metadata.readable import plain_lines
from stepscope.metadata.strings import writable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment

__all__ = ["console", "echo", "flush", "write_data"]

_ASCII = str.maketrans(
    "─│└┤├╌▏▕…·→▲░▒▓█▁▂▃▄▅▆▇▉▊▋▌▍▎µ−",
    "-|+||-||~*>^.:%#__.-=*%#*==-.u-",
)
"""What our own drawing becomes where the output has no such characters; as wide as before."""


def console(*, stderr: bool = False) -> Console:
    """The terminal, or the file or pipe in its place: then without colour and 80 columns wide."""
    file = _Output(sys.stderr if stderr else sys.stdout)
    return _Screen(file=file, highlight=False, markup=False, emoji=False, soft_wrap=False)  # type: ignore[arg-type]


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


class _Screen(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """As rich prints; in a file or a pipe without the blanks that fill lines up."""
        if self.is_terminal:
            super().print(*objects, **options)
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write(re.sub(r" +$", "", captured.get(), flags=re.MULTILINE))

    def render_str(self, text: str, **options: Any) -> Text:
        """Before it is measured and folded, so that the layout knows how long it is."""
        return super().render_str(plain_lines(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Every text comes by here, whatever table or bar it is in."""
        if isinstance(renderable, Text) and not renderable.plain.isprintable():
            renderable = _visible(renderable)
        return super().render(renderable, options)

    def on_broken_pipe(self) -> None:
        """End as a program does whose reader went away; 1 would say something else."""
        try:
            super().on_broken_pipe()
        except SystemExit:
            from stepscope.cli.command_line import BROKEN_PIPE

            raise SystemExit(BROKEN_PIPE) from None


def _visible(text: Text) -> Text:
    """The text with what does not print made visible, and its styles where they were."""
    if not any(not c.isprintable() and c != "\n" for c in text.plain):
        return text
    odd = [at for at, c in enumerate(text.plain) if not c.isprintable() and c != "\n"]
    made = text.blank_copy()
    for piece in text.divide([place for at in odd for place in (at, at + 1)]):
        if len(piece.plain) == 1:
            piece.plain = plain_lines(piece.plain)
        made.append_text(piece)
    return made


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
