"""The runs behind a page: read when they are asked for, again when their files have changed.

Guarantees:

- what is kept in memory is bounded: a survey of all runs; all of them, where they are no more than
  `_KEPT_RUNS` and `_KEPT_OPS` executions, else those that were looked at last, up to as many (or
  one that is larger); and values that were made of them up to `_KEPT_VALUES`;
- all of that belongs to one *generation*. Files that changed begin another, in which nothing of the
  one before is used; what is asked for by then was true when it was answered;
- files that are gone end nothing: what is known of them stays, and `state` says so;
- one thread at a time reads and computes; others wait.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from stepscope.analysis.program.verdict import notes_for_verdict
from stepscope.analysis.runs import NamedRun
from stepscope.errors import StepscopeError, UnreadableFileError
from stepscope.metadata.readers import is_unread
from stepscope.metadata.readers.event_file import NoRunError
from stepscope.metadata.wire.together import decoded_ahead
from stepscope.web.survey import Survey, surveyed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from stepscope.metadata import RunMetadata
    from stepscope.web.run_sources import RunSource, SourcedRun

__all__ = ["NoSuchRunError", "Recordings", "State"]

State: TypeAlias = Literal["ok", "empty", "unreadable", "gone"]
_T = TypeVar("_T")
_KEPT_OPS: Final = 3_000_000
_KEPT_RUNS: Final = 2_000
_KEPT_VALUES: Final = 256
_LOOK_EVERY_S: Final = 1.0
_PATIENCE: Final = 5
"""Runs are read anew at most every so many times as long as reading them took."""
_GROWING_S: Final = 10.0


class NoSuchRunError(StepscopeError):
    """A run was asked for that is not there."""


class Recordings:
    """The runs in some files, read when they are asked for, again when the files change."""

    def __init__(self, source: RunSource, *, follow: bool = True) -> None:
        """Nothing is read yet. Without `follow`, files are taken for what they were first."""
        self.source = source
        self.lock = threading.RLock()
        self.generation = 1
        self._follow = follow
        self._files: Hashable = None
        self._looked_at = 0.0
        self._changed_at = 0.0
        self._reading_took = 0.0
        self._gone = ""
        self._survey: Survey | None = None
        self._trouble: tuple[State, str] | None = None
        self._runs: OrderedDict[int, SourcedRun] = OrderedDict()
        self._values: OrderedDict[Hashable, Any] = OrderedDict()

    # -- what becomes of the files -----------------------------------------------------------

    def look(self) -> None:
        """See whether files have changed, if that was not done just now."""
        with self.lock:
            now = time.monotonic()
            patience = max(_LOOK_EVERY_S, _PATIENCE * self._reading_took)
            if not self._follow and self._files is not None:
                return
            if now - self._looked_at < (patience if self._files is not None else 0):
                return
            self._looked_at = now
            try:
                files = self.source.state()
            except UnreadableFileError as error:
                self._gone = str(error)
                return
            was_gone, self._gone = bool(self._gone), ""
            if files == self._files and not was_gone:
                return
            if self._files is not None:
                self.generation += 1
                self._changed_at = now
                self._forget()
            self._files = files

    def _forget(self) -> None:
        self._survey = self._trouble = None
        self._runs.clear()
        self._values.clear()

    @property
    def growing(self) -> bool:
        """Whether files changed within the last seconds."""
        return self._changed_at > 0 and time.monotonic() - self._changed_at < _GROWING_S

    @property
    def state(self) -> tuple[State, str]:
        """How it is about the runs, and a sentence where there is something to say."""
        with self.lock:
            if self._gone:
                return "gone", f"{self._gone}; what is shown was read before"
            self._read()
            return self._trouble or ("ok", "")

    # -- runs --------------------------------------------------------------------------------

    @property
    def survey(self) -> Survey:
        """What is known of all runs; `UnreadableFileError` where there is none."""
        with self.lock:
            self._read()
            if self._survey is None:
                assert self._trouble is not None
                raise UnreadableFileError(self._trouble[1])
            return self._survey

    def _read(self) -> None:
        if self._survey is not None or self._trouble is not None:
            return
        began = time.monotonic()
        try:
            runs = self._keeping_few(self.source.each())
            paths = self.source.paths
            notes = notes_for_verdict(paths[0]) if len(paths) == 1 else ()
            found = surveyed(runs, self.source.each, notes)
        except NoRunError as error:
            self._trouble = "empty", f"There is nothing here yet. {error}"
        except UnreadableFileError as error:
            self._trouble = "unreadable", str(error)
        else:
            if found.readable:
                self._survey = found
            elif found.damage:
                self._trouble = "unreadable", found.damage[0]
            else:
                self._trouble = "empty", "there is no run yet"
        self._reading_took = time.monotonic() - began

    def _keeping_few(self, runs: Iterable[SourcedRun]) -> Iterator[SourcedRun]:
        """The runs, decoded; all of them are kept, unless they are too many."""
        ops = 0
        for number, found in enumerate(decoded_ahead(runs, lambda item: item.run.metadata)):
            ops += len(found.run.metadata.ops)
            if number == len(self._runs):
                self._runs[number] = found
            if number and (number >= _KEPT_RUNS or ops > _KEPT_OPS):
                self._runs.clear()
            yield found

    def run(self, number: int) -> NamedRun:
        """The run of this number, as `stepscope info` counts; from memory if it is there."""
        with self.lock:
            survey = self.survey
            if not 0 <= number < len(survey.number_of_run):
                raise NoSuchRunError(
                    f"there is no run {number}; there are {len(survey.number_of_run)}"
                )
            found = self._runs.get(number)
            if found is None:
                found = next(islice(self.source.each(), number, None), None)
                if found is None:
                    raise NoSuchRunError(f"run {number} is not there any more")
                self._keep(number, found)
            self._runs.move_to_end(number)
            return NamedRun(*found.run)

    def set_of(self, number: int) -> int:
        """The set that a run is of."""
        return self.survey.set_of_run[number]

    def _keep(self, number: int, found: SourcedRun) -> None:
        self._runs[number] = found
        sizes = {n: len(kept.run.metadata.ops) for n, kept in self._runs.items()}
        while len(self._runs) > 1 and sum(sizes.values()) > _KEPT_OPS:
            dropped, _ = self._runs.popitem(last=False)
            del sizes[dropped]
            for key in [k for k in self._values if isinstance(k, tuple) and dropped in k]:
                del self._values[key]

    def each(self, of_set: int | None = None) -> Iterator[NamedRun]:
        """All runs that can be read, one after the other, none of them kept."""
        for place, run in self._all():
            if (of_set is None or place == of_set) and not is_unread(run.metadata):
                yield NamedRun(*run)

    def _all(self) -> Iterable[SourcedRun]:
        """All runs, from memory those that are there."""
        kept = dict(self._runs)
        if self._survey is not None and len(kept) == len(self._survey.number_of_run):
            return [kept[number] for number in range(len(kept))]
        return (kept.get(number, found) for number, found in enumerate(self.source.each()))

    def only(self, number: int | None) -> Iterator[NamedRun]:
        """The run of a number, or all."""
        if number is None:
            yield from self.each()
        else:
            yield self.run(number)

    def one(self, number: int) -> RunMetadata:
        """As `run`, without its name."""
        return self.run(number).metadata

    # -- values ------------------------------------------------------------------------------

    def kept(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """A value made of these runs: made once, and kept while it is asked for.

        Of a key that is a tuple with the number of a run in it the value goes when the run does.
        """
        with self.lock:
            if key not in self._values:
                self._values[key] = make()
                while len(self._values) > _KEPT_VALUES:
                    self._values.popitem(last=False)
            self._values.move_to_end(key)
            value: _T = self._values[key]
            return value
