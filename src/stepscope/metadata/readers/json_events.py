"""The events of a Chrome trace, read as a stream.

A trace is JSON: a list of events, or an object whose `traceEvents` is that list. Parsed as a whole
it takes twenty times its size, so it is cut between events into stretches of about a megabyte, and
one stretch is parsed at a time. Where a stretch does not parse, its events are tried one by one:
those that cannot be read are counted, all others are there.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EventStream", "is_gzip"]

_STRETCH = 1 << 20
_READ = 1 << 18
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_CUTS_TRIED = 6
_BRACES_LOOKED_AT = 400
_EVENT_BYTES = 1 << 20
_HEAD_BYTES = 1 << 24
# No single event is longer: where none ends within so much, there is nothing more to read.
_LONGEST = 1 << 25
# Traces shrink to a fortieth at best; what unpacks to far more was made to do harm.
_UNPACKED_FREELY = 1 << 24
_UNPACKED_RATIO = 64
_GZIP = 31


def is_gzip(data: bytes) -> bool:
    """Whether the bytes are gzip-compressed."""
    return data[:2] == b"\x1f\x8b"


class EventStream:
    """Iterates over lists of events. `is_trace` is known after the first step.

    After the iteration `about` is what stands beside the events in the file, `unreadable` how many
    pieces could not be read, and `problem` says what was wrong with the file, if anything.
    """

    def __init__(self, data: bytes) -> None:
        self.about: dict[str, Any] = {}
        self.is_trace = False
        self.unreadable = 0
        self.problem = ""
        self._chunks = self._unpack(data) if is_gzip(data) else self._cut(data)
        self._rest = b""
        self._ended = False

    @staticmethod
    def _cut(data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), _READ):
            yield data[at : at + _READ]

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        taken = unpacked = 0
        stream = zlib.decompressobj(wbits=_GZIP)
        try:
            for packed in self._cut(data):
                taken += len(packed)
                limit = max(_UNPACKED_FREELY, taken * _UNPACKED_RATIO)
                while packed:
                    if stream.eof:
                        # Several packed streams may stand one after the other.
                        stream = zlib.decompressobj(wbits=_GZIP)
                    piece = stream.decompress(packed, _READ)
                    packed = stream.unused_data or stream.unconsumed_tail
                    unpacked += len(piece)
                    if piece:
                        yield piece
                    if unpacked > limit:
                        self.problem = (
                            f"it unpacks to more than {unpacked:,} bytes; no trace does that"
                        )
                        return
        except zlib.error:
            self.problem = f"its compressed data is damaged after {unpacked:,} bytes"
            return
        if not stream.eof:
            self.problem = f"its compressed data ends early, after {unpacked:,} bytes"

    def _fill(self, size: int) -> None:
        pieces = [self._rest]
        have = len(self._rest)
        while have < size:
            piece = next(self._chunks, None)
            if piece is None:
                self._ended = True
                break
            pieces.append(piece)
            have += len(piece)
        self._rest = b"".join(pieces)

    def __iter__(self) -> Iterator[list[Any]]:
        if not self._find_events():
            return
        size = _STRETCH
        while True:
            self._fill(size)
            if self._ended:
                yield from self._last()
                return
            events, cut = self._stretch()
            if events is None:
                # Most likely one long event; look at more of it.
                size = 2 * len(self._rest)
                if size > _LONGEST:
                    yield from self._one_by_one(self._rest)
                    self._rest = b""
                    size = _STRETCH
                continue
            self._rest = self._rest[cut:]
            size = _STRETCH
            yield events

    def _find_events(self) -> bool:
        self._fill(_STRETCH)
        text = self._rest.removeprefix(b"\xef\xbb\xbf").lstrip()
        if text[:1] == b"[":
            self._rest = text[1:]
            self.is_trace = True
            return True
        if text[:1] != b"{":
            return False
        size = _STRETCH
        while (found := _EVENTS.search(text)) is None:
            if self._ended or size > _HEAD_BYTES:
                return False
            size *= 2
            self._fill(size)
            text = self._rest.lstrip()
        self.is_trace = True
        self._tell(text[: found.end()] + b"]}")
        self._rest = text[found.end() :]
        return True

    def _tell(self, text: bytes) -> None:
        """Keep what stands beside the events."""
        try:
            about = orjson.loads(text)
        except orjson.JSONDecodeError:
            return
        if isinstance(about, dict):
            self.about |= {key: value for key, value in about.items() if key != "traceEvents"}

    def _stretch(self) -> tuple[list[Any] | None, int]:
        """As many events from the front as are whole, and where the next one begins."""
        text = self._rest
        end = len(text)
        tried = 0
        for _ in range(_BRACES_LOOKED_AT):
            end = text.rfind(b"}", 0, end)
            if end < 0 or tried == _CUTS_TRIED:
                break
            between = _BETWEEN.match(text, end)
            if between is None:
                continue
            tried += 1
            try:
                return orjson.loads(b"[" + text[: end + 1] + b"]"), between.end() - 1
            except orjson.JSONDecodeError:
                continue
        return None, 0

    def _last(self) -> Iterator[list[Any]]:
        """The events of the last stretch, and what stands behind them."""
        text = self._rest
        self._rest = b""
        end = len(text)
        for _ in range(_CUTS_TRIED):
            end = text.rfind(b"]", 0, end)
            if end < 0:
                break
            try:
                events = orjson.loads(b"[" + text[: end + 1])
            except orjson.JSONDecodeError:
                continue
            behind = text[end + 1 :].strip()
            if behind.startswith(b","):
                self._tell(b"{" + behind[1:])
            yield events
            return
        yield from self._one_by_one(text)

    def _one_by_one(self, text: bytes) -> Iterator[list[Any]]:
        self.problem = self.problem or "it is damaged, or ends before its last event"
        begin = 0
        events: list[Any] = []
        while begin < len(text):
            between = _BETWEEN.search(text, begin)
            end = len(text) if between is None else between.start() + 1
            piece = text[begin:end].strip(b" \t\r\n,]")
            if piece:
                self._try(piece, events)
            begin = len(text) if between is None else between.end() - 1
            if len(events) >= 4096:
                yield events
                events = []
        yield events

    def _try(self, piece: bytes, events: list[Any]) -> None:
        try:
            events.append(orjson.loads(piece))
        except orjson.JSONDecodeError:
            # Python's reader also takes NaN and halves of surrogate pairs.
            try:
                if len(piece) > _EVENT_BYTES:
                    raise ValueError
                events.append(json.loads(piece))
            except (ValueError, RecursionError):
                self.unreadable += 1
