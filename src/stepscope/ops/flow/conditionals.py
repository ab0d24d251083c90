"""`cond` and `case`: one of several functions, chosen when the graph runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import int32
from stepscope.graph.graph import control_dependencies, graph_of, name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.ops import structures
from stepscope.ops.arrays.conversion import cast, identity
from stepscope.ops.arrays.joining import stack
from stepscope.ops.flow.flow_contexts import BranchContext
from stepscope.ops.flow.ordering import Assert, with_dependencies
from stepscope.ops.flow.switches import merge, switch
from stepscope.ops.flow.tensor_array import TensorArray, as_flow, with_flow
from stepscope.ops.math.comparison import less_equal
from stepscope.ops.math.reductions import reduce_sum

__all__ = ["case", "cond"]


def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Callable[[], Any] | None = None,
    fn2: Callable[[], Any] | None = None,
) -> Any:
    """What `true_fn()` gives where `pred` is true, else what `false_fn()` gives.

    Both are called now, to build their ops; when the graph runs, the ops of one of them execute.
    They give the same structure of tensors of the same types. Without `strict` a list of one comes
    back as its element. Ops that were made outside execute either way.
    """
    true_fn, false_fn = true_fn or fn1, false_fn or fn2
    for what, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(function):
            raise TypeError(f"'{what}' must be callable, not {function!r}.")
    assert true_fn is not None
    assert false_fn is not None
    if isinstance(pred, bool):
        raise TypeError("'pred' must not be a Python bool: a Python `if` decides that now.")
    with name_scope(name, "cond", [pred]):
        pred = convert_to_tensor(pred)
        on_false, on_true = switch(pred, pred)
        pivot_true = identity(on_true, name="switch_t")
        pivot_false = identity(on_false, name="switch_f")
        pred = identity(pred, name="pred_id")
        given_true, flat_true = _branch(pred, pivot_true, 1, true_fn, "true_fn")
        given_false, flat_false = _branch(pred, pivot_false, 0, false_fn, "false_fn")
        structures.check_same(
            given_true, given_false, "true_fn and false_fn must give the same structure"
        )
        _check_types(flat_true, flat_false)
        merged = [merge(pair)[0] for pair in zip(flat_false, flat_true, strict=True)]
        flat = [
            with_flow(original, tensor)
            for original, tensor in zip(structures.leaves(given_true), merged, strict=True)
        ]
        result = structures.packed(given_true, flat)
    if not strict and isinstance(result, (list, tuple)) and len(result) == 1:
        return result[0]
    return result


def _branch(
    pred: Tensor, pivot: Tensor, branch: int, function: Callable[[], Any], what: str
) -> tuple[Any, list[Tensor]]:
    """What the function gave, and the tensors that leave the branch."""
    context = BranchContext(pred, pivot, branch)
    with context.entered():
        given = function()
        if given is None:
            raise ValueError(f"'{what}' must have a return value.")
        results = [_leaving(context, leaf) for leaf in structures.leaves(given)]
    if not results:
        raise ValueError("'true_fn' and 'false_fn' must return at least one result.")
    return given, results


def _leaving(context: BranchContext, leaf: Any) -> Tensor:
    if isinstance(leaf, Operation):
        return with_dependencies([leaf], context._pivot())
    if isinstance(leaf, TensorArray):
        leaf = as_flow(leaf)
    return context.result(convert_to_tensor(leaf))


def _check_types(true: Sequence[Tensor], false: Sequence[Tensor]) -> None:
    for t, f in zip(true, false, strict=True):
        if t.dtype.base_dtype is not f.dtype.base_dtype:
            raise ValueError(
                "Outputs of 'true_fn' and 'false_fn' must have the same type(s). Received "
                f"{t.dtype.name} from 'true_fn' and {f.dtype.name} from 'false_fn'."
            )


def case(
    pred_fn_pairs: Mapping[Any, Callable[[], Any]] | Sequence[tuple[Any, Callable[[], Any]]],
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """What the function of the first true predicate gives, else what `default()` gives.

    Without a default the last function is taken where no predicate is true. With `exclusive` it is
    an InvalidArgumentError in the run when more than one of the predicates is true.
    """
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, Mapping) else pred_fn_pairs)
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not callable(pair[1]):
            raise TypeError(f"'pred_fn_pairs' holds (tensor, callable) pairs, not {pair!r}.")
    if default is None:
        if not pairs:
            raise ValueError("'pred_fn_pairs' must not be empty where there is no default.")
        *pairs, (_, default) = pairs
    predicates = [pred for pred, _ in pairs]
    with graph_of(predicates).name_scope(name):
        if not exclusive or not pairs:
            return _chain(pairs, default, strict)
        with control_dependencies([_at_most_one(predicates)]):
            return _chain(pairs, default, strict)


def _at_most_one(predicates: Sequence[Any]) -> Operation:
    listed = stack(predicates, name="preds_c")
    count = reduce_sum(cast(listed, int32), name="num_true_conds")
    names = ", ".join(getattr(pred, "name", "?") for pred in predicates)
    said = f"Input error: exclusive=True: more than 1 conditions ({names}) evaluated as True:"
    return Assert(less_equal(count, 1), [said, listed], summarize=len(predicates))


def _chain(
    pairs: Sequence[tuple[Any, Callable[[], Any]]], default: Callable[[], Any], strict: bool
) -> Any:
    if not pairs:
        return default()
    (pred, function), *others = pairs
    return cond(pred, function, lambda: _chain(others, default, strict), strict=strict)
