"""A view as the message that TensorFlow's profiler returns for it."""

from __future__ import annotations

from typing import Any

from stepscope.analysis.model_profile.nodes import ModelProfile, ProfiledNode
from stepscope.analysis.model_profile.options import ProfileOptions
from stepscope.analysis.model_profile.views import View, ViewPlace
from stepscope.metadata.wire.profile_messages import GraphNodeProto, MultiGraphNodeProto

__all__ = ["message_of"]


def message_of(profile: ModelProfile, view: View, root: ViewPlace, options: ProfileOptions) -> Any:
    """A `GraphNodeProto` of the views of scopes and the graph, else a `MultiGraphNodeProto`."""
    of_nodes = view in ("scope", "graph")
    message = (GraphNodeProto if of_nodes else MultiGraphNodeProto)()
    to_do = [(message, root)]
    while to_do:
        into, place = to_do.pop()
        if of_nodes:
            _fill_node(into, place, profile)
        else:
            _fill_group(into, place, profile, options.step)
        to_do += [(into.children.add(), below) for below in place.shown]
    return message


def _fill_node(into: Any, place: ViewPlace, profile: ModelProfile) -> None:
    _fill_numbers(into, place)
    into.run_count = place.own.run_count
    into.total_run_count = place.total.run_count
    into.total_definition_count = place.definitions
    for node in place.nodes:
        _fill_shapes(into, node, profile)


def _fill_group(into: Any, place: ViewPlace, profile: ModelProfile, step: int) -> None:
    _fill_numbers(into, place)
    for node in place.nodes:
        own = ViewPlace(node.name, [node], own=node.numbers(step))
        own.start_total()
        _fill_node(into.graph_nodes.add(), own, profile)


def _fill_numbers(into: Any, place: ViewPlace) -> None:
    into.name = place.name
    for name, value in place.own._asdict().items():
        if name != "run_count":
            setattr(into, name, value)
            setattr(into, f"total_{name}", getattr(place.total, name))


def _fill_shapes(into: Any, node: ProfiledNode, profile: ModelProfile) -> None:
    into.devices.extend(node.devices)
    for number, shape in profile.input_shapes(node).items():
        told = into.input_shapes[number]
        if shape is None:
            told.unknown_rank = True
        else:
            for size in shape or (1,):
                told.dim.add(size=size)
