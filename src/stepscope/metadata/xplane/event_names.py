"""What an event on a thread's line is, by its name.

Names are few beside events: each is looked at once per plane, and events are told apart by the
number of their name. TensorFlow writes:

    node:Op                      a kernel, as the executor runs it
    ExecutorPropagateOutputs     the executor's mark that a node is done (at a raised level only)
    ExecutorState::Process       an executor at work on a step, on this thread
    FunctionRun, SessionRun      a thread that asks for a step
    EagerExecute                 a call from eager code: of an op, or (stat is_func) of a function
    EagerLocalExecute: Op        the op, inside of it
    InstantiatedCapturedFunction::...   an input pipeline that calls one of its functions

and Stepscope adds `stepscope:run:` (a run, by its number), `stepscope:span:` (a span of the user's
own) and `stepscope:op:` (a Python function that eager code called, which TensorFlow does not time);
in a profile that it exported also `stepscope:node:` (a kernel whose name would read otherwise).
The op by which Stepscope asks what an input pipeline did is left out: nobody else calls it.
"""

from __future__ import annotations

from typing import Final

MARK: Final = "stepscope:run:"
SPAN: Final = "stepscope:span:"
PYTHON_OP: Final = "stepscope:op:"
PROCESS_EVENT: Final = "ExecutorState::Process"
_NODE: Final = "stepscope:node:"
_OURS: Final = "stepscope:"
_EAGER: Final = "EagerLocalExecute: "
_PIPELINE: Final = "InstantiatedCapturedFunction::"

(
    NOTHING, KERNEL, DONE, PROCESS, STARTS, EAGER_CALL, RUN_MARK, PYTHON_CALL, USER_SPAN, EAGER_OP,
    PIPELINE_CALL,
) = range(11)  # fmt: skip
"""What an event is."""

_WHOLE_NAMES: Final = {
    "ExecutorPropagateOutputs": DONE,
    PROCESS_EVENT: PROCESS,
    "SessionRun": STARTS,
    "FunctionRun": STARTS,
    "EagerExecute": EAGER_CALL,
    "EagerLocalExecute: IteratorGetModelProto": NOTHING,
}
_PREFIXES: Final = {
    MARK: RUN_MARK,
    PYTHON_OP: PYTHON_CALL,
    SPAN: USER_SPAN,
    _EAGER: EAGER_OP,
    _PIPELINE: PIPELINE_CALL,
}


Meaning = tuple[int, str, str]
"""What an event of some name is.

The kind; the node of a kernel, or of eager ops and of events of our own what follows their prefix
(of the mark of a run all of it); the op type of a kernel.
"""
_NO_MEANING: Final[Meaning] = (NOTHING, "", "")


def escaped(name: str) -> str:
    """A name as part of an event's name: there a # begins arguments.

    >>> escaped("load #1"), unescaped(escaped("load #1"))
    ('load %231', 'load #1')
    """
    return name.replace("%", "%25").replace("#", "%23")


def unescaped(name: str) -> str:
    """The name that `escaped` was given."""
    return name.replace("%23", "#").replace("%25", "%")


def meaning_of(name: str) -> Meaning:
    """What an event of this name is.

    >>> meaning_of("dense/MatMul:MatMul")[1:]
    ('dense/MatMul', 'MatMul')
    """
    node, colon, op = name.rpartition(":")
    is_pair = colon and node and op and node[-1] != ":" and not name.startswith(_OURS)
    if is_pair and op.isidentifier():
        return KERNEL, node, op
    fixed = _WHOLE_NAMES.get(name)
    if fixed is not None:
        return fixed, name, ""
    if name.startswith(_NODE):
        op, _, node = name[len(_NODE) :].partition(":")
        return KERNEL, node, unescaped(op.replace("%3A", ":"))
    for prefix, kind in _PREFIXES.items():
        if name.startswith(prefix):
            return kind, name if kind == RUN_MARK else name[len(prefix) :], ""
    if is_pair and " " not in op and (op[0].isalnum() or op[0] == "_"):
        return KERNEL, node, op
    return _NO_MEANING


def named(node: str, op: str) -> str:
    """The name of an event that `meaning_of` takes for that kernel.

    >>> named("dense/MatMul", "MatMul"), named("stepscope:x", "a:b")
    ('dense/MatMul:MatMul', 'stepscope:node:a%3Ab:stepscope:x')
    """
    name = f"{node}:{op}"
    if meaning_of(name) == (KERNEL, node, op):
        return name
    return f"{_NODE}{escaped(op).replace(':', '%3A')}:{node}"
