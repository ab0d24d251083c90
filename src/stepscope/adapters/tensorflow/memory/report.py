"""Out of memory on TensorFlow: which error it is, what was asked for, and the text for the user."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from stepscope import errors
from stepscope._messages import DataType
from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.source_lines import innermost_of_user
from stepscope.adapters.tensorflow.failures import (
    both_classes,
    failing_eager_op,
    failing_nodes,
)
from stepscope.adapters.tensorflow.memory.allocator_events import CPU
from stepscope.metadata.memory.out_of_memory import MemoryRequest, OutOfMemory

HOW_TO_RECORD: Final = (
    "`stepscope run --memory SCRIPT`, or in a program "
    "`stepscope.adapters.tensorflow.enable_memory_events()` before TensorFlow is imported"
)
_HINT: Final = re.compile(
    r"\n?Hint: If you want to see a list of allocated tensors when OOM happens, add "
    r"report_tensor_allocations_upon_oom to RunOptions[^\n]*\n?"
)
_ASKED: Final = re.compile(
    r"OOM when allocating tensor with shape(\[[\d,]*\]) and type (\w+)"
    r"(?: on (\S+) by allocator (\S+))?"
)
_DEFINED_AT: Final = re.compile(
    r"Detected at node \S+ defined at \(most recent call last\):\n((?:<stack traces unavailable>|"
    r"  File [^\n]*|\s)*)"
)
_FRAME: Final = re.compile(r'File "([^"]+)", line (\d+)')
_INSIDE_PYTHON: Final = re.compile(r"^(?:\w+\.)*ResourceExhaustedError: ", re.MULTILINE)
_ABOUT_MEMORY: Final = re.compile(
    r"OOM when|out of memory|(?:unable|fail\w*) to allocate|cannot allocate|bad_alloc|MemoryError",
    re.IGNORECASE,
)
"""What else is exhausted (a disk, the size of a message) has the same code."""
_BFC: Final = "bfc"
_OUR_HINT: Final = (
    "Hint: to see who held the memory, trace the run or give it "
    "options=stepscope.RunOptions(report_allocations_on_oom=True); that works for sessions, "
    f"functions and eager code. To have every byte accounted for, record from the start: "
    f"{HOW_TO_RECORD}."
)
_WAITED: Final = (
    "TensorFlow's allocator waited ten seconds for other threads to free memory before it gave up; "
    "that wait is fixed in TensorFlow."
)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether a request for memory was refused, also by way of Python inside an op."""
    tf_errors = versions.tensorflow().errors
    if isinstance(error, tf_errors.ResourceExhaustedError):
        # TensorFlow's hint comes with every such error, and speaks of memory.
        return _ABOUT_MEMORY.search(_HINT.sub("", error.message)) is not None
    if isinstance(error, tf_errors.UnknownError):
        inside = _INSIDE_PYTHON.search(error.message)
        return inside is not None and _ABOUT_MEMORY.search(error.message, inside.end()) is not None
    return False


def give_its_class(error: Any) -> None:
    """Make an out-of-memory the error that it is.

    TensorFlow tells what Python raised inside an op by a few classes of Python's own; its own
    error becomes an `UnknownError` there.
    """
    exhausted = versions.tensorflow().errors.ResourceExhaustedError
    if not isinstance(error, exhausted):
        error.__class__ = exhausted
        error._error_code = errors.RESOURCE_EXHAUSTED
        both_classes(error)


def source_in(message: str) -> str:
    """`file:line` where the user made the node that an error is about; "" if it does not say."""
    found = _DEFINED_AT.search(message)
    frames = _FRAME.findall(found[1]) if found is not None else []
    return innermost_of_user((name, int(line)) for name, line in reversed(frames))


def request_of(error: Any, time_ns: int) -> MemoryRequest:
    """What was refused: the allocator has no event of it, only the error's text."""
    message = str(error.message)
    op = failing_eager_op(error) or next(iter(failing_nodes(error)), "")
    found = _ASKED.search(message)
    if found is None:
        return MemoryRequest(op or "an op that is not named", 0, CPU, time_ns=time_ns)
    text, kind, device, _ = found.groups()
    shape = tuple(int(size) for size in text[1:-1].split(",") if size)
    try:
        dtype = int(DataType.Value(f"DT_{kind.upper()}"))
        size = versions.tensorflow().as_dtype(dtype).size or 0
    except (ValueError, TypeError):
        dtype = size = 0
    return MemoryRequest(
        op or "an op that is not named",
        math.prod(shape) * size,
        device or CPU,
        shape=shape,
        dtype=dtype,
        source=source_in(message),
        time_ns=time_ns,
    )


def explain(error: Any, report: OutOfMemory | None) -> None:
    """Put the report into the error's text, or a hint that is true here; at most once."""
    message = error.message
    if getattr(error, "_stepscope_explained", False):
        return
    error._stepscope_explained = True
    plain = _HINT.sub("\n", message).rstrip()
    found = _ASKED.search(message)
    parts = [plain, "", report.text() if report is not None else _OUR_HINT]
    if found is not None and _BFC in (found[4] or ""):
        parts.append(_WAITED)
    error._message = "\n".join(parts)
