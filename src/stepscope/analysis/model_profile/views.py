"""The four views of a model's profile: by scopes, by the graph, by op types and by lines of code.

Each makes a tree. In that of scopes "a/b" is below "a"; in that of the graph a node is below the
first of those it is an input of; lines of code are below those that called them; op types are one
below the other, in their order. A node counts if one of its types is asked for
(`account_type_regexes`); it is in the tree if it counts or something below it does. Then
`start_name_regexes` say where to begin, and limits and names what is shown: what is not shown
leaves its place to what is below it. With `account_displayed_op_only` the totals are of what is
shown.

Worked example, two variables and what they sum up to:

>>> profile = ModelProfile()
>>> for name, shape in (("net/w", (12, 7)), ("net/b", (7,))):
...     profile.nodes[name] = ProfiledNode(name, "VariableV2", shape=shape)
>>> options = ProfileOptions.of({
...     "account_type_regexes": [".*"], "start_name_regexes": [".*"], "show_name_regexes": [".*"],
... })
>>> for place in view_of(profile, "scope", options).walk():
...     print(place.name, place.own.parameters, place.total.parameters)
_TFProfRoot 0 91
net 0 91
net/b 7 7
net/w 84 84
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from stepscope.analysis.model_profile.nodes import Frame, ModelProfile, Numbers, ProfiledNode
from stepscope.analysis.model_profile.options import ProfileOptions

__all__ = ["ROOT", "VIEWS", "View", "ViewPlace", "view_of"]

View: TypeAlias = Literal["scope", "graph", "op", "code"]
VIEWS: tuple[str, ...] = get_args(View)
ROOT = "_TFProfRoot"
_ORDERED_BY = {
    "bytes": "requested_bytes",
    "micros": "exec_micros",
    "cpu_micros": "cpu_exec_micros",
    "accelerator_micros": "accelerator_exec_micros",
    "params": "parameters",
    "occurrence": "run_count",
}
_LONGEST, _CUT = 20, 17
_NOTHING = Numbers()


@dataclass(slots=True, eq=False)
class ViewPlace:
    """A place in a tree: a scope, a node, an op type or a line.

    `own` is what it took itself, `total` that and what all below it took, as far as it counts
    (`account`). `nodes` are the graph's nodes at this place; a scope that no node is named after
    has none. `definitions` counts places, this one and those below it.
    """

    name: str
    nodes: list[ProfiledNode] = field(default_factory=list)
    below: list[ViewPlace] = field(default_factory=list)
    types: tuple[str, ...] = ()
    account: bool = False
    own: Numbers = _NOTHING
    total: Numbers = _NOTHING
    definitions: int = 0
    shown: list[ViewPlace] = field(default_factory=list)

    def walk(self) -> Iterator[ViewPlace]:
        """This place and all that are shown below it, in their order."""
        yield self
        for place in self.shown:
            yield from place.walk()

    def start_total(self) -> None:
        """Let the total be what this place itself took."""
        self.total = self.own
        self.definitions = 1

    def add(self, other: ViewPlace) -> None:
        self.total = self.total.plus(other.total)
        self.definitions += other.definitions


def view_of(profile: ModelProfile, view: View, options: ProfileOptions) -> ViewPlace:
    """The root of a view; `walk` gives its places."""
    return _VIEWS[view](profile, options)


def _by_scope(profile: ModelProfile, options: ProfileOptions) -> ViewPlace:
    root = ViewPlace(ROOT, types=("_kTFScopeParent",))
    places = {"": root}

    def place_of(name: str) -> ViewPlace:
        if name not in places:
            places[name] = ViewPlace(name, types=("_kTFScopeParent",))
            place_of(name.rpartition("/")[0]).below.append(places[name])
        return places[name]

    for name in sorted(profile.nodes):
        place = place_of(name)
        place.nodes, place.types = [profile.nodes[name]], tuple(sorted(profile.nodes[name].types))
    return _as_tree(root, options)


def _by_graph(profile: ModelProfile, options: ProfileOptions) -> ViewPlace:
    root = ViewPlace(ROOT, types=("_TFGraphParent",))
    places = {
        name: ViewPlace(name, [profile.nodes[name]], types=tuple(sorted(profile.nodes[name].types)))
        for name in sorted(profile.nodes)
    }
    taken = set()
    for name, place in places.items():
        for _, source in sorted(profile.nodes[name].inputs.items()):
            if source in places:
                place.below.append(places[source])
                taken.add(source)
    root.below = [place for name, place in places.items() if name not in taken]
    return _as_tree(root, options, gaps=False)


def _by_code(profile: ModelProfile, options: ProfileOptions) -> ViewPlace:
    root = ViewPlace(ROOT)
    places: dict[tuple[str, ...], ViewPlace] = {(): root}
    for name in sorted(profile.nodes):
        node = profile.nodes[name]
        frames, of_gradient = profile.trace_of(node)
        if not frames or not options.accounts(node.types):
            continue
        path: tuple[str, ...] = ()
        for frame in frames:
            line = _line(frame) + (" (gradient)" if of_gradient else "")
            above, path = path, (*path, line)
            if path not in places:
                places[path] = ViewPlace(line)
                places[above].below.append(places[path])
        places[path].nodes.append(node)
    for place in places.values():
        place.below.sort(key=lambda place: place.name)
        place.types = tuple({kind for node in place.nodes for kind in node.types})
    return _as_tree(root, options, of_shown=False)


def _line(frame: Frame) -> str:
    file, function = frame.file.rpartition("/")[2], frame.function
    if len(function) >= _LONGEST:
        function = function[:_CUT] + "..."
    return f"{file}:{frame.line}:{function}"


# -- trees -------------------------------------------------------------------------------------


def _as_tree(
    root: ViewPlace, options: ProfileOptions, *, gaps: bool = True, of_shown: bool = True
) -> ViewPlace:
    """What counts of a tree, then what is shown of that.

    `gaps` leaves what does not count in its place where something below it does. Without `of_shown`
    totals are never of what is shown alone, and limits are for totals.
    """
    counted = _counted(root.below, options, set(), gaps=gaps)
    for place in counted:
        root.add(place)
    root.shown = list(_beginnings(counted, options, set()))
    return _shown([root], options, 1, set(), of_shown=of_shown)[0]


def _counted(
    places: list[ViewPlace], options: ProfileOptions, seen: set[int], *, gaps: bool
) -> list[ViewPlace]:
    """Those that count or have something below that does, with their totals."""
    found = []
    for place in places:
        if id(place) in seen:
            continue
        seen.add(id(place))
        below = _counted(place.below, options, seen, gaps=gaps)
        place.account = options.accounts(place.types)
        if not place.account and not (below and gaps):
            found += below
            continue
        place.own = _sum(place.nodes, options)
        place.start_total()
        for other in below:
            place.add(other)
        place.shown = below
        found.append(place)
    return found


def _beginnings(
    places: list[ViewPlace], options: ProfileOptions, seen: set[int]
) -> Iterator[ViewPlace]:
    for place in places:
        if id(place) in seen:
            continue
        seen.add(id(place))
        if options.starts(place.name):
            yield place
        else:
            yield from _beginnings(place.shown, options, seen)


def _shown(
    places: list[ViewPlace], options: ProfileOptions, depth: int, seen: set[int], *, of_shown: bool
) -> list[ViewPlace]:
    found = []
    for place in places:
        if id(place) in seen:
            continue
        seen.add(id(place))
        # Decided by the totals of all below, before those of what is shown take their place.
        show = _is_shown(place, options, depth, place.own if of_shown else None)
        below: list[ViewPlace] = []
        if not options.trims(place.name) and depth <= options.max_depth:
            below = _shown(place.shown, options, depth + 1, seen, of_shown=of_shown)
        if not show:
            found += below
            continue
        place.shown = _sorted(below, options, _total)
        if options.account_displayed_op_only and of_shown:
            place.start_total()
            for other in place.shown:
                place.add(other)
        found.append(place)
    return found


def _is_shown(place: ViewPlace, options: ProfileOptions, depth: int, own: Numbers | None) -> bool:
    """`own` is what some limits are compared with; None where all are with the totals."""
    if place.name == ROOT:
        return True
    total = place.total
    compared = total if own is None else own
    limits = (
        (total.requested_bytes, options.min_bytes),
        (total.peak_bytes, options.min_peak_bytes),
        (total.residual_bytes, options.min_residual_bytes),
        (total.output_bytes, options.min_output_bytes),
        (total.exec_micros, options.min_micros),
        (total.accelerator_exec_micros, options.min_accelerator_micros),
        (total.cpu_exec_micros, options.min_cpu_micros),
        (compared.parameters, options.min_params),
        (compared.float_ops, options.min_float_ops),
    )
    if depth > options.max_depth or any(found < least for found, least in limits):
        return False
    if own is not None and own.run_count < options.min_occurrence:
        return False
    return options.shows(place.name)


def _sum(nodes: list[ProfiledNode], options: ProfileOptions) -> Numbers:
    total = _NOTHING
    for node in nodes:
        total = total.plus(node.numbers(options.step))
    return total


def _total(place: ViewPlace) -> Numbers:
    return place.total


def _own(place: ViewPlace) -> Numbers:
    return place.own


def _sorted(
    places: list[ViewPlace], options: ProfileOptions, numbers: Callable[[ViewPlace], Numbers]
) -> list[ViewPlace]:
    if options.order_by == "name":
        return sorted(places, key=lambda place: place.name)
    by = _ORDERED_BY.get(options.order_by, options.order_by)
    return sorted(places, key=lambda place: (-getattr(numbers(place), by), place.name))


# -- op types ----------------------------------------------------------------------------------


def _by_op(profile: ModelProfile, options: ProfileOptions) -> ViewPlace:
    """Types in a row: the total of each is what it and all after it took."""
    root = ViewPlace(ROOT)
    types: dict[str, ViewPlace] = {}
    for name in sorted(profile.nodes):
        node = profile.nodes[name]
        if options.accounts(node.types):
            types.setdefault(node.op, ViewPlace(node.op, account=True)).nodes.append(node)
    for place in types.values():
        place.own = _sum(place.nodes, options)
    if options.order_by == "occurrence":
        places = sorted(types.values(), key=lambda place: (-len(place.nodes), place.name))
    else:
        places = _sorted(list(types.values()), options, _own)
    _in_a_row(root, places)
    begin = next((at for at, place in enumerate(places) if options.starts(place.name)), len(places))
    found = []
    for depth, place in enumerate(places[begin:]):
        if options.trims(place.name):
            break
        often = len(place.nodes) >= options.min_occurrence
        if often and _is_shown(place, options, depth, None):
            found.append(place)
    if options.account_displayed_op_only:
        _in_a_row(root, found)
    for place, after in zip([root, *found], [*found, None], strict=True):
        place.shown = [after] if after is not None else []
    return root


def _in_a_row(root: ViewPlace, places: list[ViewPlace]) -> None:
    after: ViewPlace | None = None
    for place in reversed(places):
        place.start_total()
        if after is not None:
            place.add(after)
        after = place
    root.total = after.total if after is not None else _NOTHING


_VIEWS: dict[str, Callable[[ModelProfile, ProfileOptions], ViewPlace]] = {
    "scope": _by_scope,
    "graph": _by_graph,
    "op": _by_op,
    "code": _by_code,
}
