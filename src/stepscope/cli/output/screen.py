"""rich's console, which keeps what `terminal` promises of all that is printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from stepscope.metadata.readable import plain_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment


class Screen(Console):
    """Texts with control characters made visible, whatever they are part of."""

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
            from stepscope.cli.arguments.command_line import BROKEN_PIPE

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
