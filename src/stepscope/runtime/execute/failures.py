"""From whatever went wrong inside a run to the error the user gets."""

from __future__ import annotations

from stepscope import errors
from stepscope.errors import OpError
from stepscope.runtime.plan.plan import PlanStep

_BY_PYTHON_TYPE: tuple[tuple[type[BaseException], type[OpError]], ...] = (
    (MemoryError, errors.ResourceExhaustedError),
    (NotImplementedError, errors.UnimplementedError),
    (ValueError, errors.InvalidArgumentError),
    (TypeError, errors.InvalidArgumentError),
    (IndexError, errors.InvalidArgumentError),
    (ZeroDivisionError, errors.InvalidArgumentError),
    (OverflowError, errors.InvalidArgumentError),
)


def op_error(cause: BaseException, step: PlanStep | None) -> OpError:
    """The OpError of an exception that a step's kernel raised, naming node and source line."""
    if step is None:
        if isinstance(cause, OpError):
            return cause
        return errors.InternalError.without_op(f"{type(cause).__name__}: {cause}")
    kind = type(cause) if isinstance(cause, OpError) else _kind(cause)
    text = cause.message if isinstance(cause, OpError) else str(cause) or type(cause).__name__
    if step.shape_error and not isinstance(cause, OpError):
        text = f"{step.shape_error} ({text})"
    node, op = step.node, step.node.op
    if op is not None and isinstance(cause, OpError) and cause.op is op:
        return cause
    message = f"{text}\n\t [[{{{{node {node.name}}}}}]]"
    if op is not None and op.source:
        message += f"\nNode {node.name!r} ({node.op_type}) was defined at {op.source}"
    error = kind(node.node_def(), op, message)
    error.__cause__ = cause.__cause__ if isinstance(cause, OpError) else cause
    return error


def _kind(cause: BaseException) -> type[OpError]:
    for python_type, kind in _BY_PYTHON_TYPE:
        if isinstance(cause, python_type):
            return kind
    return errors.UnknownError
