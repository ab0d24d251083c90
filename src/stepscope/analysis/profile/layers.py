"""Which layer a node belongs to, and whether it is of its forward, backward or optimizer part.

Names tell it. TensorFlow puts in front of them what called a node (`StatefulPartitionedCall/`,
`replica_1/`), what it is a gradient of (`gradient_tape/`, `gradients/`, `..._grad`), and in loops
and branches the whole name once more; all that is taken away. What is left is a path of scopes, of
which those that stand for one op (`BiasAdd/ReadVariableOp`, `Tensordot/...`, `moments/...`) are no
layers. Keras 3 enters the scope of a layer twice, to build it and to call it, so that the layer
`dense` calls itself `dense_1`: where nothing is in the scope before it, the number is Keras'.

Names do not tell of which variable the ops of an optimizer are: `adam/Mul_23`. The graph does: an
op that updates a variable, or leads to one that does, is of the layer that reads that variable.

Ops outside of any scope are of the input if they take elements from a dataset or a queue, or are
fed; in a step that Keras made they are of the metrics; elsewhere they are known by the line of
code that made them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from stepscope.analysis.execution.edges import input_node
from stepscope.metadata.wire.labels import parse_label

if TYPE_CHECKING:
    from stepscope.metadata import RunMetadata
    from stepscope.metadata.graph_facts import GraphFacts

__all__ = [
    "BACKWARD",
    "FORWARD",
    "NO_LAYER",
    "OPTIMIZER",
    "OTHER",
    "PHASES",
    "LayerPlace",
    "NodeScopes",
    "PlaceKind",
]
__all__ += ["layer_lines", "layers_of", "places", "scope_of"]

FORWARD: Final = "forward"
BACKWARD: Final = "backward"
OPTIMIZER: Final = "optimizer"
OTHER: Final = "other"
"""What is part of no layer: input, metrics."""
PHASES: Final = (FORWARD, BACKWARD, OPTIMIZER, OTHER)
NO_LAYER: Final = "(no layer)"
INPUT: Final = "input"
METRICS: Final = "metrics"
LOSS: Final = "loss"
_KERAS_LOSS: Final = "compile_loss"

_NUMBER = re.compile(r"(.+?)_(\d+)\Z", re.DOTALL)
_NUMBERS = re.compile(r"(?:_\d+)+\Z")
_GRADIENT = re.compile(r"(.+)_grad(?:_\d+)?\Z", re.DOTALL)
_CALLS = re.compile(
    r"(?:Stateful)?PartitionedCall(?:_\d+)?|Func|_?_?inference_.*|replica_\d+|gradient_tape"
    r"|gradients(?:_\d+)?|while(?:_\d+)?(?:_grad(?:_\d+)?)?|cond(?:_\d+)?(?:_grad(?:_\d+)?)?"
    r"|body|then|else|branch\d+|_\d+|next_iteration|enter|exit|merge|pivot_[ft]|switch_pred"
    r"|loop_body_control|LoopCond|.*_switch|grad_ys_\d+|(?:ConstantFolding|\w+Optimizer)"
)
_BACKWARD = re.compile(r"gradient_tape|gradients(?:_\d+)?|.+_grad(?:_\d+)?", re.DOTALL)
_OPTIMIZERS = re.compile(
    r"adam|adamw|adamax|nadam|sgd|rmsprop|rm_sprop|adagrad|adadelta|ftrl|lion|adafactor|lamb"
    r"|muon|loss_scale_optimizer|momentum|gradientdescent|proximaladagrad"
    r"|proximalgradientdescent|beta1_power|beta2_power"
)
_SLOTS = frozenset(["Adam", "Momentum", "RMSProp", "Adagrad", "Adadelta", "Ftrl", "FtrlProximal"])
_UPDATE = "update_"
_INITIALIZER = "Initializer"
_UPDATES = re.compile(r"(?:Resource)?(?:Sparse)?Apply[A-Z]\w*")
_CHANGES = re.compile(r"(?:Resource)?(?:Sparse)?Apply[A-Z]\w*|Assign(?:Add|Sub)\w*")
_COUNTS = re.compile(r"AssignAdd(?:VariableOp)?")
_ASSIGNS = re.compile(r"(?:Resource)?(?:Sparse)?Apply[A-Z]\w*|Assign\w*|ResourceScatter\w*")
_OF_INPUT = re.compile(
    r"\w*Dataset(?:V\d+)?|\w*Iterator\w*|Optional\w+|Queue(?:Deq|Enq)\w+|ReaderRead\w*"
    r"|RandomShuffleQueue\w*|FIFOQueue\w*|Placeholder\w*"
)
_CONTROL = frozenset(["_SOURCE", "_SINK"])
_ARGUMENTS = frozenset(["_Arg", "_Retval"])
_OP_SCOPES = re.compile(
    r"Tensordot|einsum|moments|batchnorm|stateless_dropout|stateless_random_uniform"
    r"|stateless_random_normal|stateless_truncated_normal|random_uniform|random_normal"
    r"|truncated_normal|Initializer|strided_slice|transpose|matmul|convolution|sub|mul|truediv"
    r"|div|floordiv|mod|pow|neg|range|zeros|ones|zeros_like|ones_like|concat|stack|unstack"
    r"|split|TensorArrayV2|clip_by_value|clip_by_norm|clip_by_global_norm|global_norm"
    r"|div_no_nan|logistic_loss|xentropy|tuple|TensorArrayUnstack|TensorArrayV2Stack"
    r"|TensorArrayV2Read|TensorArrayV2Write|ReadVariableOp|BiasAdd|MatMul|Cast|Relu|Conv2D"
    r"|Const|Shape|Sum|Mean|Prod|Square|Sqrt|Sigmoid|Tanh|Softmax|Mul|Sub|Add|AddV2|Pow"
    r"|Reshape|Transpose|Gather|GatherV2|Pad|accumulator|embedding_lookup|ArgMax|Equal"
    r"|Identity|BatchMatMulV2|FusedBatchNormV3|BiasAddGrad|SparseSoftmaxCrossEntropyWithLogits"
    r"|SoftmaxCrossEntropyWithLogits|MaxPool|AvgPool|Placeholder"
)
_LAYERS_TOO = frozenset(["add", "softmax"])
"""Names of ops that layers of Keras have as well."""
_SPECIAL = {_KERAS_LOSS: LOSS}


class NodeScopes(NamedTuple):
    """The scopes around a node, without what calls, gradients and loops put in."""

    parts: tuple[str, ...]
    phase: str
    initial: bool = False
    """Whether it makes the first value of a variable."""


class PlaceKind(StrEnum):
    """What the name of a place stands for."""

    LAYER = "layer"
    LOSS = LOSS
    METRICS = METRICS
    INPUT = INPUT
    OPTIMIZER = OPTIMIZER
    """What an optimizer does for all layers at once."""
    LINE = "line"
    """Made outside of any scope, by this line of the program."""
    NONE = NO_LAYER


class LayerPlace(NamedTuple):
    """A layer, as a path (`resnet50/conv1_conv`), and the part of it."""

    layer: str
    phase: str
    kind: PlaceKind = PlaceKind.LAYER


@lru_cache(1 << 16)
def scope_of(name: str) -> NodeScopes:
    """What the name of a node tells.

    >>> scope_of("StatefulPartitionedCall/sequential_1/dense_1/BiasAdd/ReadVariableOp").parts
    ('sequential_1', 'dense_1', 'BiasAdd')
    >>> scope_of("gradient_tape/replica_1/model/dense/MatMul/MatMul_1")[:2]
    (('model', 'dense', 'MatMul'), 'backward')
    >>> scope_of("gradients/hidden/Relu_grad/ReluGrad")[:2]
    (('hidden', 'Relu'), 'backward')
    >>> scope_of("gradient_tape/net/lstm/while/net/lstm/while_grad/body/_7/gradient_tape/net/lstm/"
    ...          "while/gradients/net/lstm/while/cell/mul_grad/Mul")[:2]
    (('net', 'lstm', 'cell', 'mul'), 'backward')
    >>> scope_of("train/update_hidden/w/ApplyAdam")[:2]
    (('hidden', 'w'), 'optimizer')
    >>> scope_of("MatMul")[:2]
    ((), 'forward')
    """
    *scopes, last = name.split("/")
    phase = FORWARD
    parts: list[str] = []
    for part in scopes:
        if _BACKWARD.fullmatch(part):
            phase = BACKWARD
        if _CALLS.fullmatch(part) or not part:
            continue
        if part.startswith(_UPDATE) and len(part) > len(_UPDATE):
            parts, phase = [part.removeprefix(_UPDATE)], OPTIMIZER
            continue
        gradient = _GRADIENT.fullmatch(part)
        part = gradient.group(1) if gradient else part
        if parts and part == parts[0]:
            # Inside of a loop's body the name begins again.
            parts = []
        parts.append(part)
    if parts and parts[-1] in ("input", "output") and _CALLS.fullmatch(last):
        parts.pop()  # of a function that is called: `Func/net/while/input/_5`
    initial = _INITIALIZER in parts
    if initial:
        # Of a variable: what is in front of it is the layer's.
        parts = parts[: max(parts.index(_INITIALIZER) - 1, 0)]
    if phase == FORWARD and _GRADIENT.fullmatch(last):
        phase = BACKWARD
    return NodeScopes(tuple(parts), phase, initial)


def places(
    names: Sequence[str],
    types: Sequence[str],
    labels: Sequence[str],
    sources: Mapping[str, str],
    *,
    function: bool,
) -> list[LayerPlace]:
    """The layers of the nodes of a graph.

    `labels` name the inputs, as TensorFlow's timeline does, `sources` the lines that made nodes.
    `function` says whether the graph is of a function, where Keras numbers its layers.

    >>> nodes = {
    ...     "unknown_3": "_Arg()",
    ...     "net_1/dense_1/ReadVariableOp": "ReadVariableOp(unknown_3)",
    ...     "net_1/dense_1/Relu": "_FusedMatMul(x, net_1/dense_1/ReadVariableOp)",
    ...     "gradient_tape/net_1/dense_1/MatMul/MatMul": "MatMul(x, net_1/dense_1/Relu)",
    ...     "adam/Mul_7": "Mul(gradient_tape/net_1/dense_1/MatMul/MatMul)",
    ...     "adam/AssignSubVariableOp": "AssignSubVariableOp(unknown_3, adam/Mul_7)",
    ...     "Mean": "Mean(net_1/dense_1/Relu)",
    ... }
    >>> types = [call.partition("(")[0] for call in nodes.values()]
    >>> labels = [f"{name} = {call}" for name, call in nodes.items()]
    >>> for place in places(list(nodes), types, labels, {"Mean": "/a/net.py:7"}, function=True):
    ...     print(place.layer, place.phase)
    net/dense forward
    net/dense forward
    net/dense forward
    net/dense backward
    net/dense optimizer
    net/dense optimizer
    net.py:7 forward
    """
    graph = _Graph(names, types, labels, sources)
    scopes = [scope_of(name) for name in names]
    graph.find_optimizers(scopes)
    layers = _Layers(scopes, names, set(types), numbered=function)
    found: list[LayerPlace | None] = []
    for number, scope in enumerate(scopes):
        found.append(graph.place(number, scope, layers))
    graph.place_optimizer(found)
    graph.place_others(found)
    return [place or LayerPlace(NO_LAYER, OTHER, PlaceKind.NONE) for place in found]


_found: WeakKeyDictionary[GraphFacts, tuple[Mapping[str, str], list[LayerPlace]]] = (
    WeakKeyDictionary()
)


def layers_of(run: RunMetadata) -> list[LayerPlace]:
    """The places of the nodes of a run's graph, in the order of its facts; worked out once."""
    facts, sources = run.ops.facts, run.sources
    known = _found.get(facts)
    if known is not None and (known[0] is sources or known[0] == sources):
        return known[1]
    found = places(
        facts.names.values.tolist(),
        facts.ops.values.tolist(),
        facts.all_labels.values.tolist(),
        sources,
        function=run.engine.endswith("function"),
    )
    _found[facts] = (sources, found)
    return found


def layer_lines(run: RunMetadata) -> dict[str, str]:
    """The line of the program at which most of each layer's own nodes were made, where it is known.

    Those of its forward part say it where there are any: a call of `minimize` makes the others.
    """
    sources = run.sources
    found: dict[str, Counter[tuple[bool, str]]] = defaultdict(Counter)
    names = run.ops.facts.names.values.tolist()
    for name, place in zip(names, layers_of(run), strict=True):
        if line := sources.get(name):
            found[place.layer][place.phase == FORWARD, line] += 1
    return {
        layer: max(lines, key=lambda known: (known[0], lines[known]))[1]
        for layer, lines in found.items()
    }


class _Layers:
    """Which of the scopes of a graph are layers, and what they are called."""

    def __init__(
        self, scopes: Sequence[NodeScopes], names: Sequence[str], types: set[str], *, numbered: bool
    ) -> None:
        self._types = types
        self._nodes = {
            (*scope.parts, name.rpartition("/")[2])
            for scope, name in zip(scopes, names, strict=True)
        }
        self._below: dict[tuple[str, ...], set[str]] | None = None
        if numbered:
            below: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
            for scope in set(scopes):
                if not scope.initial:
                    for depth, part in enumerate(scope.parts):
                        below[scope.parts[:depth]].add(part)
            self._below = dict(below)
        self._known: dict[tuple[str, ...], str] = {}

    def path(self, parts: tuple[str, ...]) -> str:
        """The layer that these scopes are in; "" for none."""
        if parts not in self._known:
            self._known[parts] = "/".join(self._parts(parts))
        return self._known[parts]

    def _parts(self, parts: tuple[str, ...]) -> Iterable[str]:
        in_keras = False
        for depth, part in enumerate(parts):
            called = self._called(parts[:depth], part)
            if called is not None:
                yield called
                in_keras = True
            elif self._is_op(parts[: depth + 1]) or (in_keras and part[:1].isupper()):
                return
            else:
                yield _SPECIAL.get(part, part)

    def _called(self, above: tuple[str, ...], part: str) -> str | None:
        """What Keras calls the layer whose scope this is; None where it is no layer of Keras."""
        numbered = _NUMBER.fullmatch(part) if self._below is not None else None
        if numbered is None or self._below is None:
            return None
        name, number = numbered.group(1), int(numbered.group(2))
        plain = _NUMBERS.sub("", part)
        if _OP_SCOPES.fullmatch(plain) or plain in self._types:
            return None
        if (plain in _LAYERS_TOO or plain[:1].isupper()) and (*above, part) in self._nodes:
            return None
        if plain in _LAYERS_TOO and not self._has_layers(above):
            return None
        before = name if number == 1 else f"{name}_{number - 1}"
        return None if before in self._below.get(above, ()) else name

    def _has_layers(self, above: tuple[str, ...]) -> bool:
        """Whether a scope is one of a model: there is a layer in it that is no op as well."""
        below = self._below.get(above, ()) if self._below is not None else ()
        return any(
            _NUMBERS.sub("", part) not in _LAYERS_TOO and self._called(above, part) is not None
            for part in below
        )

    def _is_op(self, parts: tuple[str, ...]) -> bool:
        plain = _NUMBERS.sub("", parts[-1])
        return bool(
            plain in _LAYERS_TOO or _OP_SCOPES.fullmatch(plain) or plain in self._types
            or parts in self._nodes
        )  # fmt: skip


class _Graph:
    """The nodes of a graph by number, with who reads whom."""

    def __init__(
        self,
        names: Sequence[str],
        types: Sequence[str],
        labels: Sequence[str],
        sources: Mapping[str, str],
    ) -> None:
        self._names, self._types, self._sources = names, types, sources
        number = {name: place for place, name in enumerate(names)}
        self._inputs: list[list[int]] = []
        self._readers: list[list[int]] = [[] for _ in names]
        for reader, (name, label) in enumerate(zip(names, labels, strict=True)):
            found = [number.get(input_node(ref), -1) for ref in parse_label(name, label)[1]]
            self._inputs.append(found)
            for node in found:
                if node >= 0:
                    self._readers[node].append(reader)
        self._optimizers: set[str] = set()
        self._keras_line: str | None = None

    def find_optimizers(self, scopes: Sequence[NodeScopes]) -> None:
        """Which outermost scopes are of an optimizer, whatever it is called."""
        for name, kind, scope in zip(self._names, self._types, scopes, strict=True):
            if scope.parts and scope.parts[0] == _KERAS_LOSS and self._keras_line is None:
                self._keras_line = self._sources.get(name)
            first, slash, rest = name.partition("/")
            if slash and rest.startswith(_UPDATE) and _UPDATES.fullmatch(kind):
                self._optimizers.add(first)
        outermost = {scope.parts[0] for scope in scopes if scope.parts}
        self._optimizers |= {first for first in outermost if _is_optimizer(first)}
        # One with a name of its own: it updates variables, and nothing is derived from it.
        derived = {s.parts[0] for s in scopes if s.parts and s.phase == BACKWARD}
        changes = [
            (number, scopes[number].parts[0])
            for number, kind in enumerate(self._types)
            if derived and scopes[number].parts and _CHANGES.fullmatch(kind)
        ]
        learning = self._after_gradients(scopes) if changes else set()
        for number, first in changes:
            # One that only counts, as metrics do, learns nothing from gradients.
            if number in learning or not _COUNTS.fullmatch(self._types[number]):
                self._optimizers |= {first} - derived

    def _after_gradients(self, scopes: Sequence[NodeScopes]) -> set[int]:
        """The nodes of the backward part, and all that read what they or their readers put out."""
        waiting = [number for number, scope in enumerate(scopes) if scope.phase == BACKWARD]
        found = set(waiting)
        while waiting:
            more = set(self._readers[waiting.pop()]) - found
            found |= more
            waiting += more
        return found

    def place(self, number: int, scope: NodeScopes, layers: _Layers) -> LayerPlace | None:
        """Where the name puts a node; None where it takes the rest of the graph to tell."""
        name, kind = self._names[number], self._types[number]
        if kind in _ARGUMENTS:
            return None
        if _OF_INPUT.fullmatch(kind) and len(scope.parts) < 2:
            return LayerPlace(INPUT, OTHER, PlaceKind.INPUT)
        first = scope.parts[0] if scope.parts else name.rpartition("/")[2]
        if first in self._optimizers or _is_optimizer(first):
            return None
        path = layers.path(scope.parts)
        if not path:
            return None
        phase = OPTIMIZER if _SLOTS.intersection(_unnumbered(name)) else scope.phase
        return LayerPlace(
            path, phase, PlaceKind.LOSS if path.split("/")[0] == LOSS else PlaceKind.LAYER
        )

    def place_optimizer(self, found: list[LayerPlace | None]) -> None:
        """Put the ops of optimizers to the layers of the variables that they update."""
        own = [
            number for number, place in enumerate(found)
            if place is None and self._is_of_optimizer(number)
        ]  # fmt: skip
        if not own:
            return
        mine = set(own)
        layer: dict[int, str] = {}
        slots: set[int] = set()
        for number in own:
            if _ASSIGNS.fullmatch(self._types[number]) and self._inputs[number]:
                of = self._variable_of(self._inputs[number][0], found)
                if of:
                    layer[number] = of
        for number in own:
            if number not in layer and _UPDATES.fullmatch(self._types[number]):
                of = _one(self._gradient_of(node, found) for node in self._inputs[number])
                if of:
                    layer[number] = of
        # From what updates a variable to what leads there: nodes come in no order, so until
        # nothing changes. An op that leads to several is of the optimizer as a whole.
        waiting = list(layer)
        while waiting:
            number = waiting.pop()
            for node in self._inputs[number]:
                if node < 0 or node in layer:
                    continue
                if node in mine:
                    of = self._all_readers(node, layer, mine)
                    if of:
                        layer[node] = of
                        waiting.append(node)
                elif found[node] is None and self._types[node] == "_Arg" and node not in slots:
                    # A slot of the optimizer: what else is done to it is of the same layer.
                    slots.add(node)
                    more = [r for r in self._readers[node] if r in mine and r not in layer]
                    layer.update(dict.fromkeys(more, layer[number]))
                    waiting += more
        for number in own:
            kind = PlaceKind.LAYER if number in layer else PlaceKind.OPTIMIZER
            found[number] = LayerPlace(layer.get(number, OPTIMIZER), OPTIMIZER, kind)

    def _is_of_optimizer(self, number: int) -> bool:
        name = self._names[number]
        scope = scope_of(name)
        first = scope.parts[0] if scope.parts else name.rpartition("/")[2]
        return first in self._optimizers or _is_optimizer(first)

    def _variable_of(self, node: int, found: list[LayerPlace | None]) -> str:
        """The layer that reads a variable, where it is one."""
        if node < 0:
            return ""
        if (place := found[node]) is not None:
            return place.layer
        readers = (found[reader] for reader in self._readers[node])
        return _one(p.layer for p in readers if p is not None and p.phase == FORWARD)

    def _gradient_of(self, node: int, found: list[LayerPlace | None]) -> str:
        place = found[node] if node >= 0 else None
        return place.layer if place is not None and place.phase == BACKWARD else ""

    def _all_readers(self, node: int, layer: dict[int, str], mine: set[int]) -> str:
        readers = [layer.get(reader, "") for reader in self._readers[node] if reader in mine]
        return readers[0] if readers and all(of == readers[0] for of in readers) else ""

    def place_others(self, found: list[LayerPlace | None]) -> None:
        """Put what is outside of any scope."""
        waiting = [number for number, place in enumerate(found) if place is None]
        inner = [number for number in waiting if self._types[number] not in _ARGUMENTS]
        # Sums of gradients: of sums, some of them.
        for _ in range(2):
            for number in inner:
                if found[number] is None:
                    found[number] = self._between_gradients(number, found)
        for number in inner:
            if found[number] is None:
                found[number] = self._without_scope(number, found)
        for number in waiting:
            if found[number] is None and self._types[number] in _ARGUMENTS:
                found[number] = self._argument(number, found)

    def _between_gradients(self, number: int, found: list[LayerPlace | None]) -> LayerPlace | None:
        """The layer of an op that adds gradients up, or makes one for others to read."""
        into = [found[reader] for reader in self._readers[number]]
        out_of = [found[node] for node in self._inputs[number] if node >= 0]
        made = any(place is not None and place.phase == BACKWARD for place in out_of)
        if not made and not (
            into and all(place is not None and place.phase == BACKWARD for place in into)
        ):
            return None
        for near in (into, out_of):
            for place in near:
                if place is not None and place.phase != OTHER:
                    return LayerPlace(place.layer, BACKWARD, place.kind)
        return None

    def _argument(self, number: int, found: list[LayerPlace | None]) -> LayerPlace:
        """Where an argument or a result of a function is used, or made."""
        results = self._types[number] == "_Retval"
        beside = self._inputs[number] if results else self._readers[number]
        near = [place for node in beside if node >= 0 and (place := found[node]) is not None]
        if not _one(place.layer for place in near):
            return LayerPlace("output" if results else INPUT, OTHER, PlaceKind.INPUT)
        phases = {place.phase for place in near}
        return near[0]._replace(phase=FORWARD if FORWARD in phases else min(phases))

    def _without_scope(self, number: int, found: list[LayerPlace | None]) -> LayerPlace | None:
        name = self._names[number]
        if name in _CONTROL:
            return None
        line = self._sources.get(name, "")
        if self._keras_line is not None and line in ("", self._keras_line):
            return LayerPlace(METRICS, OTHER, PlaceKind.METRICS)
        if not line:
            # The first value of a variable, for example, is made in a layer and assigned outside.
            inputs = (found[node] for node in self._inputs[number] if node >= 0)
            made_in = [place for place in inputs if place is not None]
            one = _one(place.layer for place in made_in)
            return made_in[0]._replace(phase=FORWARD) if one else None
        file, _, rest = line.rpartition("/")
        phase = scope_of(name).phase
        known = phase == BACKWARD or self._inputs[number] or self._readers[number]
        return LayerPlace(rest if file else line, phase if known else OTHER, PlaceKind.LINE)


def _unnumbered(name: str) -> set[str]:
    """The parts of a name, without the numbers that make them unique."""
    return {match.group(1) if (match := _NUMBER.fullmatch(part)) else part
            for part in name.split("/")}  # fmt: skip


def _is_optimizer(scope: str) -> bool:
    numbered = _NUMBER.fullmatch(scope)
    plain = (numbered.group(1) if numbered else scope).lower()
    return any(_OPTIMIZERS.fullmatch(name) for name in (plain, scope.lower()))


def _one(texts: Iterable[str]) -> str:
    """The one text that there is; "" for none or several."""
    found = {text for text in texts if text}
    return found.pop() if len(found) == 1 else ""
