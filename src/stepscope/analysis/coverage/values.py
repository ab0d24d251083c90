"""Which places of the user's graph hold the same value, and which hold one known beforehand."""

from __future__ import annotations

from typing import Any, Final

from stepscope.analysis.coverage.users_graph import OpenedGraph, Place

SHAPE_OPS: Final = frozenset(
    {
        "Shape",
        "ShapeN",
        "Size",
        "Rank",
        "BroadcastGradientArgs",
        "ConcatOffset",
        "TensorArraySizeV3",
    }
)
"""Ops whose value follows from static shapes: where they are gone, they were folded."""

PASS_THROUGH: Final = frozenset(
    {
        *("Identity", "IdentityN", "StopGradient", "PreventGradient", "Snapshot", "NoOp"),
        *("PlaceholderWithDefault", "EnsureShape", "CheckNumerics", "RefIdentity", "Bitcast"),
        *("_EagerConst", "DebugGradientIdentity", "CrossReplicaSum", "ControlTrigger"),
    }
)
"""Ops that hand their input on."""

_ANY_ORDER: Final = frozenset(
    {
        *("Add", "AddV2", "Mul", "Maximum", "Minimum", "LogicalAnd", "LogicalOr", "Equal"),
        *("NotEqual", "BitwiseAnd", "BitwiseOr", "SquaredDifference"),
    }
)


def producers_first(graph: OpenedGraph) -> list[int]:
    """The places in an order in which inputs come first; a cycle of a loop is cut somewhere."""
    places = graph.places
    state = bytearray(len(places))
    order: list[int] = []
    for start in range(len(places)):
        if state[start]:
            continue
        stack = [start]
        while stack:
            at = stack[-1]
            if state[at] == 0:
                state[at] = 1
                stack.extend(i for i in places[at].inputs if i >= 0 and not state[i])
            else:
                stack.pop()
                if state[at] == 1:
                    state[at] = 2
                    order.append(at)
    return order


def value_numbers(graph: OpenedGraph, order: list[int]) -> list[int]:
    """A number per place; two of the same number compute the same value in the same way."""
    places = graph.places
    numbers = [-1] * len(places)
    known: dict[Any, int] = {}
    for at in order:
        place = places[at]
        inputs: list[Any] = []
        for source, slot in zip(place.inputs, place.slots, strict=True):
            if source >= 0 and numbers[source] >= 0:
                inputs.append((numbers[source], slot.removesuffix("0").removesuffix(":output:")))
            elif source >= 0:
                inputs.append((at, slot))  # the cut of a cycle equals nothing else
            else:
                inputs.append((id(place.scope), slot))
        if place.op in PASS_THROUGH and len(inputs) == 1 and isinstance(inputs[0][0], int):
            source = place.inputs[0]
            if source >= 0 and numbers[source] >= 0 and not inputs[0][1]:
                numbers[at] = numbers[source]
                continue
        if place.op in _ANY_ORDER:
            inputs.sort(key=repr)
        key = (id(place.scope.frame), place.op, _attributes(place), *inputs)
        if not inputs and place.op != "Const":
            key = (at, *key)  # a source of its own: a placeholder, a variable, a random state
        numbers[at] = known.setdefault(key, len(known))
    return numbers


def _attributes(place: Place) -> tuple[Any, ...]:
    attributes = place.node.attr
    return tuple(
        (key, attributes[key].SerializeToString(deterministic=True))
        for key in sorted(attributes)
        if not key.startswith("_")
    )
