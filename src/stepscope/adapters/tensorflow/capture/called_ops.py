"""The eager ops that one run called, from what Python saw of each call.

Noted are when each call began and ended, the line of the user's that it came from and, at full
level, what it put out and until when that was held. The time is that of the whole call, with
TensorFlow's own way to the kernel: the profiler would tell the kernel apart, and costs several
times as much. Values that a call turns into tensors, and variables that it reads, are part of it.

Guarantees. Noting an op keeps none of its tensors alive. All that is not needed at once (lines,
names, sums) is worked out when somebody looks. Control-C, wherever it comes, loses no op that is
known to have run, and mixes up none; a call that it broke off is declared, where Python cannot tell
whether its op had run.

Eager ops have no names of their own. Each line that calls an op of some type is a node of the code:
the first is named by the type (`Exp`), those after it with a number (`Exp_1`), as graphs have it.
"""

from __future__ import annotations

import math
import sys
import threading
import time
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture import op_calls
from stepscope.adapters.tensorflow.capture.source_lines import is_users
from stepscope.adapters.tensorflow.capture.tensors import MAY_TAKE_NONE
from stepscope.metadata import Loss
from stepscope.metadata.logged_nodes import TAKES_NONE
from stepscope.metadata.xplane import ANNOTATION, Described, Row

KERNEL_TIMES: Final = "kernel times of eager ops"
_WHOLE_CALLS: Final = (
    "eager ops are timed by their calls from Python, with TensorFlow's way to the kernel, with the "
    "values that become tensors and the variables that are read inside; asynchronous ones up to "
    "where they are handed over"
)
_BROKEN_OFF: Final = (
    "a signal ended the calls of these ops from Python, which cannot tell whether they had run: "
)
_clock = time.perf_counter_ns
_getframe = sys._getframe
_BUFFER: Final = 3
"""Where the buffer stands among the notes of an output."""
_FIELDS: Final = 5
"""How many entries a call has in the list of notes."""


class _UsersFiles(dict[str, bool]):
    """Whether files are the user's: asked for each frame, so without a call for those known."""

    def __missing__(self, filename: str) -> bool:
        found = self[filename] = is_users(filename)
        return found


_users = _UsersFiles()


class OpOutput(NamedTuple):
    """A tensor that an op put out."""

    dtype: int
    shape: tuple[int, ...]
    buffer: int
    """The place of the output whose memory it is, its own if it has some to itself; -1 where that
    is not looked at, or was there before the run."""
    place: int
    """By which it is known among the outputs of the run."""
    address: int
    """Where its values are while it is alive; once it is not, a number of the buffer's own."""


class EagerCall(NamedTuple):
    """One call of an eager op, decoded."""

    name: str
    op: str
    start_ns: int
    end_ns: int
    outputs: tuple[OpOutput, ...]
    failed: bool


class _Reference(weakref.ref[Any]):
    """To an output, that knows which it is."""

    __slots__ = ("place",)
    place: int


class CallSites:
    """Names of eager ops by type and line. Stretches of one program may share it."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()
        self.lines: dict[str, str] = {}
        """`file:line` by name, of those that have one."""

    def reserve(self, names: Iterable[str]) -> None:
        """Names that nodes of functions have: no others get them, but for those that did."""
        self._taken.update(names)

    def name(self, op: str, line: str) -> str:
        """The name of what is called as `op` from that line; "" is a line, too: unknown."""
        found = self._names.get((op, line))
        if found is None:
            found, number = op, 0
            while found in self._taken:
                number += 1
                found = f"{op}_{number}"
            self._taken.add(found)
            self._names[op, line] = found
            if line:
                self.lines[found] = line
        return found


class CalledOps:
    """The eager ops of one run. Use `noting()` around the run, on its thread."""

    def __init__(
        self, *, outputs: bool = False, held: bool = False,
        before_others: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """With `outputs`, what ops put out is described; with `held`, also until when it lived.

        `before_others` is called before the first call of anything that executes more than an op
        (functions, input pipelines, sessions): what those do Python does not see.
        """
        self.sites = CallSites()
        self.spent_ns = 0
        """How long the run waited for what is timed here; all of it: `noting_cost`."""
        self._functions: list[str] = []
        self.outputs = outputs or held
        self.held = held
        self._before_others = before_others
        self._waiting: list[Callable[[], None]] = []
        """What is still to be done before others run."""
        self._calls: list[Any] = []
        """In turns: type, begin, end, code and the place in it. A call is known by its begin: the
        collector, or a signal's handler, may call others while it is noted. An output is known by
        its place in the next one."""
        self._described: list[Any] = []
        """Outputs, in turns: the call, type, shape, buffer."""
        self._names: dict[int, str] = {}
        """Of calls that have one other than by their type and line."""
        self._failed: set[int] = set()
        self._broken_off: list[int] = []
        """Calls that a signal's handler ended: whether they had run is not known."""
        self._first_output = 0
        """The place of the first output, which is not 0 inside of another run."""
        self._shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.spans: list[tuple[str, int, int]] = []
        """The user's own: name, begin and end on the clock of `time.perf_counter_ns`."""
        self._references: dict[int, _Reference] = {}
        self._freed: list[int] = []
        """Place and time, in turns, of the outputs that nobody holds any more."""
        self._over = False
        self._thread = 0
        self._epoch = 0
        self._decoded: list[EagerCall] | None = None
        self._rows: list[Row] | None = None
        self._tensor = versions.eager_tensor_class()
        self._watched = versions.numbers_in_memory() if held else frozenset()

    @contextmanager
    def noting(self) -> Iterator[None]:
        """What this thread calls inside is noted, by one around this one as well."""
        outer = op_calls.listener()
        around = outer.notes if outer is not None else None
        if around is not None:
            with around._sharing(self):
                yield
            return
        self._thread = threading.get_native_id()
        self._epoch = time.time_ns() - _clock()
        self._waiting += filter(None, [self._before_others])
        try:
            with op_calls.listening(notes=self):
                yield
        finally:
            self._over = True
            # Nothing is to be done before others any more; it would know its way back to this.
            self._waiting, self._before_others = [], None

    @contextmanager
    def _sharing(self, inner: CalledOps) -> Iterator[None]:
        """What is noted meanwhile is also that of one inside this one."""
        before = self.outputs, self._watched
        self.outputs |= inner.outputs
        self._watched |= inner._watched
        self._waiting += filter(None, [inner._before_others])
        inner._thread, inner._epoch = self._thread, self._epoch
        lists = self._calls, self._described, self.spans, self._freed, self._functions
        calls, described, spans, freed, functions = map(len, lists)
        inner._first_output = described
        inner._names, inner._failed = self._names, self._failed
        inner._broken_off = self._broken_off
        spent = self.spent_ns
        try:
            yield
        finally:
            inner._calls = self._calls[calls:]
            inner._described = self._described[described:]
            inner.spans = self.spans[spans:]
            inner._freed = self._freed[freed:]
            inner._functions = self._functions[functions:]
            inner.spent_ns = self.spent_ns - spent
            inner._over = True
            inner._references = {
                place: ref for place, ref in self._references.items() if place >= described
            }
            self.outputs, self._watched = before
            if inner._before_others in self._waiting:
                self._waiting.remove(inner._before_others)
            inner._before_others = None

    # -- while it runs -------------------------------------------------------------------------

    # Lists are flat, and nothing that Python's collector counts is kept per call: what is noted of
    # a long run would else have it look through all that the program holds, again and again.

    def call(self, op: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Make a call of an op, or of a function, and note it."""
        if op_calls.runs_others(op):
            with self.elsewhere():
                if not op_calls.is_function(op):
                    return self._call_op(op, call, args)
                self._functions.append(op)
                return call(*args)
        return self._call_op(op, call, args)

    def _call_op(self, op: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        began, ended, result = _clock(), 0, None
        try:
            result = call(*args)
            ended = _clock()
            self.note(op, began, ended, result, args)
        except BaseException as error:
            self.note_ended(op, began, ended, error, result, args)
            raise
        return result

    def note_ended(
        self, op: str, began: int, ended: int, error: BaseException, result: Any,
        args: tuple[Any, ...],
    ) -> None:  # fmt: skip
        """A call ended by an error: its own, or one of a signal that came before it was noted."""
        if isinstance(error, versions.fallback_error()) or not self._forget_half_noted(began):
            return
        if not ended and result is None:
            self._failed.add(began)
            if not isinstance(error, Exception):
                self._broken_off.append(began)
        self.note(op, began, ended or _clock(), result, args)

    def _forget_half_noted(self, began: int) -> bool:
        """Whether the call that began then is not noted yet; what there is of it is removed."""
        calls, described = self._calls, self._described
        if calls and calls[1 - _FIELDS] == began:
            return False
        while described and described[-_BUFFER - 1] == began:
            self._references.pop(len(described) - _BUFFER - 1, None)
            del described[-_BUFFER - 1 :]
        return True

    def others_run(self) -> None:
        """Something is to be called that executes more than an op."""
        mine = op_calls.listener()
        noting = mine.notes if mine is not None else None
        if noting is not None and noting._waiting:
            began = _clock()
            waiting, noting._waiting = noting._waiting, []
            for start in waiting:
                start()
            noting.spent_ns += _clock() - began

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """While inside, an executor is at work: its ops, eager ones too, are not noted here."""
        self.others_run()
        mine = op_calls.listener()
        op_calls.use(mine._replace(notes=None) if mine is not None else None)
        try:
            yield
        finally:
            op_calls.use(mine)

    def python(self, name: str, began: int, result: Any, *, failed: bool = False) -> None:
        """A Python function was called as an op, and has just ended."""
        self._names[began] = name
        if failed:
            self._failed.add(began)
        self.note("PyFunc", began, _clock(), result, ())

    def span(self, name: str, began: int) -> None:
        """A span of the user's own that ends now."""
        self.spans.append((name, began, _clock()))

    def note(self, op: str, began: int, ended: int, result: Any, args: tuple[Any, ...]) -> None:
        """The caller called an op, and had the result at once; among `args` are its inputs."""
        frame: FrameType | None = _getframe(2)
        while frame is not None and not _users[frame.f_code.co_filename]:
            frame = frame.f_back
        if self.outputs and result is not None:
            if type(result) is self._tensor:
                self._note_output(op, began, result, args)
            else:
                for tensor in self._tensors(result):
                    self._note_output(op, began, tensor, args)
        if frame is None:
            self._calls += (op, began, ended, None, 0)
        else:
            # The line itself is found later: it takes a walk through the table of the code.
            self._calls += (op, began, ended, frame.f_code, frame.f_lasti)
        self.spent_ns += _clock() - ended

    def _tensors(self, result: Any) -> Iterator[Any]:
        if type(result) is self._tensor:
            yield result
        elif isinstance(result, (list, tuple)):
            for part in result:
                yield from self._tensors(part)

    def _note_output(self, op: str, began: int, tensor: Any, args: tuple[Any, ...]) -> None:
        dtype = tensor._datatype_enum()
        shape = tensor._shape_tuple()
        buffer = -1
        if dtype in self._watched:
            buffer = place = len(self._described)
            if op in TAKES_NONE or op in MAY_TAKE_NONE:
                buffer = self._buffer_of(op, tensor, args)
            if buffer >= 0:
                reference = _Reference(tensor, self._let_go)
                reference.place = place
                self._references[place] = reference
        self._described += (
            began, dtype, self._shapes.setdefault(shape, shape), buffer,
        )  # fmt: skip

    def _buffer_of(self, op: str, tensor: Any, args: tuple[Any, ...]) -> int:
        """The buffer of what an op put out that may be its input's."""
        source = next(self._tensors(args), None)
        if source is None:
            return -1 if op in TAKES_NONE else len(self._described)
        if op in MAY_TAKE_NONE:
            start, at = versions.address_of(source), versions.address_of(tensor)
            size = math.prod(source._shape_tuple()) * versions.dtype_size(source._datatype_enum())
            if not start <= at < start + size:
                return len(self._described)
        for reference in weakref.getweakrefs(source):
            if isinstance(reference, _Reference) and reference.place in self._references:
                found: int = self._described[reference.place + _BUFFER]
                return found
        return -1

    def _let_go(self, reference: _Reference) -> None:
        if not self._over:
            self._freed += (reference.place, _clock())
            self._references.pop(reference.place, None)

    # -- afterwards ----------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many calls there are, which need not be decoded for that."""
        return len(self._decoded) if self._decoded is not None else len(self._calls) // _FIELDS

    def calls(self) -> list[EagerCall]:
        """All calls in the order in which they ended."""
        if self._decoded is None:
            epoch, naming, lines = self._epoch, self.sites.name, _Lines()
            outputs = self._outputs_by_call()
            self._references.clear()
            columns = (self._calls[field::_FIELDS] for field in range(_FIELDS))
            self._decoded = [
                EagerCall(
                    naming(
                        self._names.get(began, op),
                        lines.of(code, at) if not op_calls.finalizes(op) else "",
                    ),
                    op, epoch + began, epoch + ended, outputs.get(began, ()),
                    began in self._failed,
                )
                for op, began, ended, code, at in zip(*columns, strict=True)
            ]  # fmt: skip
            self._calls, self._described = [], []
        return self._decoded

    def _outputs_by_call(self) -> dict[int, tuple[OpOutput, ...]]:
        found: dict[int, list[OpOutput]] = {}
        first, fields = self._first_output, _BUFFER + 1
        addresses: dict[int, int] = {}
        for place, reference in list(self._references.items()):
            tensor = reference()
            if tensor is not None and place >= first:
                buffer = self._described[place - first + _BUFFER]
                addresses.setdefault(buffer, versions.address_of(tensor))
        columns = (self._described[field::fields] for field in range(fields))
        places = range(first, first + len(self._described), fields)
        for place, call, dtype, shape, buffer in zip(places, *columns, strict=True):
            address = addresses.get(buffer, buffer + 1)
            found.setdefault(call, []).append(OpOutput(dtype, shape, buffer, place, address))
        return {call: tuple(outputs) for call, outputs in found.items()}

    def rows(self, *, ended_well: bool = True) -> list[Row]:
        """The executions, and spans; of a run that failed, without the call that ended it."""
        calls = self.calls()
        ending = None if ended_well else self._failed_last()
        if ending is not None:
            calls = [call for call in calls if call is not ending]
        if self._rows is not None and len(self._rows) == len(calls) + len(self.spans):
            return list(self._rows)
        line, epoch = -self._thread, self._epoch
        rows = [
            Row(
                call.name, call.op, call.start_ns, call.end_ns, line, "", "", call.start_ns,
                tuple(map(_described, call.outputs)),
            )
            for call in calls
        ]  # fmt: skip
        rows += [
            Row(name, ANNOTATION, epoch + began, epoch + ended, line, "", "", epoch + began)
            for name, began, ended in self.spans
        ]
        self._rows = rows
        return list(rows)

    def failing_line(self, op: str) -> str:
        """Where the last call was made, if that is one of this type which failed; else ""."""
        last = self._failed_last()
        return self.sites.lines.get(last.name, "") if last is not None and last.op == op else ""

    def _failed_last(self) -> EagerCall | None:
        """The program's last call, if it failed. What is destroyed later is not the program's."""
        own = (call for call in reversed(self.calls()) if not op_calls.finalizes(call.op))
        last = next(own, None)
        return last if last is not None and last.failed else None

    def losses(self) -> list[Loss]:
        """What is not known of the calls: the kernel's own part of their times."""
        calls = self.calls()
        return [Loss(KERNEL_TIMES, len(calls), _WHOLE_CALLS)] if calls else []

    def broken_off(self) -> list[Loss]:
        """Calls of which it is not known whether the op had run."""
        begun = {self._epoch + began for began in self._broken_off}
        names = [call.name for call in self.calls() if call.start_ns in begun]
        if not names:
            return []
        return [Loss("op executions", len(names), _BROKEN_OFF + ", ".join(dict.fromkeys(names)))]

    @property
    def functions(self) -> list[str]:
        """The functions that were called, each once."""
        return list(dict.fromkeys(self._functions))

    def freed(self) -> Mapping[int, int]:
        """When nobody held an output any more, by its place; none of those held to the end."""
        times = (self._epoch + ended for ended in self._freed[1::2])
        return dict(zip(self._freed[::2], times, strict=True))


def _described(output: OpOutput) -> Described:
    return output.dtype, output.shape, bytes_of(output)


def bytes_of(output: OpOutput) -> int:
    """How large the values of an output are; 0 where that is not known of its type."""
    return math.prod(output.shape) * versions.dtype_size(output.dtype)


class _Lines:
    """`file:line` of places in code, each looked up once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], str] = {}
        self._tables: dict[int, tuple[CodeType, list[int], list[int | None]]] = {}

    def of(self, code: CodeType | None, at: int) -> str:
        if code is None:
            return ""
        key = id(code), at
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._find(code, at)
        return found

    def _find(self, code: CodeType, at: int) -> str:
        table = self._tables.get(id(code))
        if table is None:
            parts = list(code.co_lines())
            table = code, [start for start, _, _ in parts], [line for *_, line in parts]
            self._tables[id(code)] = table
        line = table[2][bisect_right(table[1], at) - 1]
        return f"{code.co_filename}:{line or code.co_firstlineno}"
