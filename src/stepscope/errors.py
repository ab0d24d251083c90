"""The whole error tree: TensorFlow's names and codes, and our own for files.

    Exception
    ├── OpError                       a run, or a request for one, failed; has a code
    │   ├── CancelledError            1   CANCELLED
    │   ├── UnknownError              2   UNKNOWN
    │   ├── InvalidArgumentError      3   INVALID_ARGUMENT
    │   │   └── InvalidOptionError        a wrong field (also ValueError, AttributeError)
    │   ├── DeadlineExceededError     4   DEADLINE_EXCEEDED
    │   ├── NotFoundError             5   NOT_FOUND
    │   ├── AlreadyExistsError        6   ALREADY_EXISTS
    │   ├── PermissionDeniedError     7   PERMISSION_DENIED
    │   ├── ResourceExhaustedError    8   RESOURCE_EXHAUSTED
    │   ├── FailedPreconditionError   9   FAILED_PRECONDITION
    │   ├── AbortedError              10  ABORTED
    │   ├── OutOfRangeError           11  OUT_OF_RANGE
    │   ├── UnimplementedError        12  UNIMPLEMENTED
    │   ├── InternalError             13  INTERNAL
    │   ├── UnavailableError          14  UNAVAILABLE
    │   ├── DataLossError             15  DATA_LOSS
    │   └── UnauthenticatedError      16  UNAUTHENTICATED
    └── StepscopeError                what is no run: files, commands
        ├── UnreadableFileError           a file that holds nothing we can read
        └── TimesTooFarApartError         runs that no trace can show together (also ValueError)

An `OpError` of a run that had metadata carries it as `error.run_metadata`. All of them pickle.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16

_CODE_NAMES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)


def code_name(code: int) -> str:
    """The name of a code: `4` gives `"DEADLINE_EXCEEDED"`; a number nobody defined, `"UNKNOWN"`."""
    return _CODE_NAMES[code] if 0 <= code < len(_CODE_NAMES) else "UNKNOWN"


def code_from_name(name: str) -> int:
    """The number of a code's name; `ValueError` for a name that is none."""
    try:
        return _CODE_NAMES.index(name)
    except ValueError:
        raise ValueError(
            f"{name!r} is no error code; the codes are {', '.join(_CODE_NAMES)}"
        ) from None


@dataclass(frozen=True)
class DetachedOp:
    """What is left of an operation in an unpickled error: its graph stayed where it was."""

    name: str
    type: str
    traceback: tuple[Any, ...] = ()


class OpError(Exception):
    """Base of all errors with a code.

    `op` is the operation that failed, if known: any object with a `name`. `run_metadata` is what
    was recorded of the run until it failed, or None where nobody asked for it.
    """

    run_metadata: Any = None

    def __init__(
        self,
        node_def: Any,
        op: Any,
        message: str,
        error_code: int = UNKNOWN,
        *args: dict[str, Any],
    ) -> None:
        super().__init__(message)
        self._node_def = node_def
        self._op = op
        self._message = message
        self._error_code = error_code
        self._experimental_payloads = args[0] if args else {}

    @property
    def message(self) -> str:
        """What went wrong, without the place where the op was made."""
        return self._message

    @property
    def op(self) -> Any:
        """The operation that failed, or None."""
        return self._op

    @property
    def node_def(self) -> Any:
        """The `NodeDef` of the node that failed, or None."""
        return self._node_def

    @property
    def error_code(self) -> int:
        """The number of the error: `DEADLINE_EXCEEDED` and so on."""
        return self._error_code

    @property
    def allocation_log(self) -> Any:
        """The run's last allocations, as its options asked for; None where there is no metadata."""
        return None if self.run_metadata is None else self.run_metadata.allocation_log

    @property
    def experimental_payloads(self) -> dict[str, Any]:
        """Details of the error, empty where there are none."""
        return self._experimental_payloads

    def __str__(self) -> str:
        frames = getattr(self._op, "traceback", None)
        if self._op is None:
            return self._message
        text = f"{self._message}\n\nOriginal stack trace for {self._op.name!r}:\n"
        return text + "".join(
            traceback.format_list([traceback.FrameSummary(*f[:3]) for f in frames or ()])
        )

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        state = {
            "_node_def": self._node_def,
            "_op": _detach(self._op),
            "_message": self._message,
            "_error_code": self._error_code,
            "_experimental_payloads": self._experimental_payloads,
        }
        if self.run_metadata is not None:
            state["run_metadata"] = self.run_metadata
        notes = getattr(self, "__notes__", None)
        if notes:
            state["__notes__"] = notes
        return _restore, (type(self), self.args, state)


def _detach(op: Any) -> DetachedOp | None:
    if op is None or isinstance(op, DetachedOp):
        return op
    frames = getattr(op, "traceback", None) or ()
    summaries = tuple(
        traceback.FrameSummary(frame[0], frame[1], frame[2], line=frame[3]) for frame in frames
    )
    return DetachedOp(str(op.name), str(getattr(op, "type", "")), summaries)


def _restore(kind: type[OpError], args: tuple[Any, ...], state: dict[str, Any]) -> OpError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class _CodedError(OpError):
    """An error whose class says its code."""

    _code = UNKNOWN

    def __init__(self, node_def: Any, op: Any, message: str, *args: dict[str, Any]) -> None:
        super().__init__(node_def, op, message, self._code, *args)

    @classmethod
    def without_op(cls, message: str) -> Self:
        """An error of no operation in particular: a wrong argument, a file that is not there.

        >>> NotFoundError.without_op("there is no train.pb").op is None
        True
        """
        return cls(None, None, message)


class CancelledError(_CodedError):
    """The run was cancelled, for example by closing its session."""

    _code = CANCELLED


class UnknownError(_CodedError):
    """An error from elsewhere that tells no code, such as one raised inside a Python op."""

    _code = UNKNOWN


class InvalidArgumentError(_CodedError):
    """An argument is wrong whatever the state of the session."""

    _code = INVALID_ARGUMENT


class InvalidOptionError(InvalidArgumentError, ValueError, AttributeError):
    """A field that a message does not have, or a value that a field does not take.

    Also a `ValueError` and an `AttributeError`, as protobuf raises in these places.
    """

    def __init__(self, message: str) -> None:
        super().__init__(None, None, message)

    @classmethod
    def without_op(cls, message: str) -> Self:
        """The same as calling it: it never has one."""
        return cls(message)


class DeadlineExceededError(_CodedError):
    """The run did not end in the time it was given."""

    _code = DEADLINE_EXCEEDED


class NotFoundError(_CodedError):
    """Something asked for is not there."""

    _code = NOT_FOUND


class AlreadyExistsError(_CodedError):
    """Something to be made is there already."""

    _code = ALREADY_EXISTS


class PermissionDeniedError(_CodedError):
    """The caller may not do this."""

    _code = PERMISSION_DENIED


class ResourceExhaustedError(_CodedError):
    """Out of memory, or of another resource."""

    _code = RESOURCE_EXHAUSTED


class FailedPreconditionError(_CodedError):
    """The state does not allow it, for example a variable that was never initialised."""

    _code = FAILED_PRECONDITION


class AbortedError(_CodedError):
    """The operation was aborted, typically by a concurrent action."""

    _code = ABORTED


class OutOfRangeError(_CodedError):
    """Iteration past the end, for example of a closed and empty queue."""

    _code = OUT_OF_RANGE


class UnimplementedError(_CodedError):
    """The engine does not do this."""

    _code = UNIMPLEMENTED


class InternalError(_CodedError):
    """Something that was relied upon is broken."""

    _code = INTERNAL


class UnavailableError(_CodedError):
    """A service cannot be reached at the moment."""

    _code = UNAVAILABLE


class DataLossError(_CodedError):
    """Data that was there is lost or corrupt."""

    _code = DATA_LOSS


class UnauthenticatedError(_CodedError):
    """The caller has no valid credentials for this."""

    _code = UNAUTHENTICATED


_CLASSES: dict[int, type[OpError]] = {
    kind._code: kind
    for kind in (
        CancelledError,
        UnknownError,
        InvalidArgumentError,
        DeadlineExceededError,
        NotFoundError,
        AlreadyExistsError,
        PermissionDeniedError,
        ResourceExhaustedError,
        FailedPreconditionError,
        AbortedError,
        OutOfRangeError,
        UnimplementedError,
        InternalError,
        UnavailableError,
        DataLossError,
        UnauthenticatedError,
    )
}


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """The class of a code; `KeyError` for a number that is none, as in TensorFlow."""
    return _CLASSES[error_code]


def error_code_from_exception_type(cls: type[OpError]) -> int:
    """The code of a class, or of the class it derives from."""
    for parent in cls.__mro__:
        for code, kind in _CLASSES.items():
            if parent is kind:
                return code
    raise KeyError(cls)


class StepscopeError(Exception):
    """Base of the errors that no run raises: files and commands. The CLI prints its message."""


class TimesTooFarApartError(StepscopeError, ValueError):
    """The times of runs are further apart than a trace can show: those of one are damaged."""


class UnreadableFileError(StepscopeError):
    """A file is missing, empty, damaged beyond use, or of a kind that is not read."""
