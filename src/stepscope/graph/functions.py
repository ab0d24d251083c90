"""Function calls of a GraphDef, taken apart: calls inlined, conditionals and loops lowered.

TensorFlow 2 writes `If`, `While` and calls of functions where TensorFlow 1 wrote their ops. Before
it runs a graph TensorFlow itself puts the functions' ops in their place: a call becomes its body,
`If` becomes Switch and Merge, `While` becomes Enter, Merge, Switch, NextIteration and Exit. So does
`lowered`. An op of a function is named after the node that calls it: `call/op`. The node itself
stays, as an IdentityN of the results (a NoOp where there are none), so that whoever reads it still
does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from stepscope._messages import AttrValue, GraphDef, NodeDef
from stepscope.errors import UnimplementedError
from stepscope.graph.registry import ArgSpec, lookup

CALLS: Final = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
CONDITIONALS: Final = frozenset({"If", "StatelessIf"})
LOOPS: Final = frozenset({"While", "StatelessWhile"})
FUNCTIONAL: Final = CALLS | CONDITIONALS | LOOPS
_MOST_NESTED: Final = 200
_BOOL: Final = 10


def lowered(graph_def: Any) -> Any:
    """The GraphDef with no function calls in it; itself where there are none."""
    library = {f.signature.name: f for f in graph_def.library.function}
    if not any(_is_functional(node, library) for node in graph_def.node):
        return graph_def
    result = GraphDef()
    result.versions.CopyFrom(
        type(result.versions).FromString(graph_def.versions.SerializeToString())
    )
    waiting = [
        (NodeDef.FromString(node.SerializeToString()), 0) for node in reversed(graph_def.node)
    ]
    while waiting:
        node, depth = waiting.pop()
        if not _is_functional(node, library):
            result.node.append(node)
            continue
        if depth > _MOST_NESTED:
            raise UnimplementedError.without_op(
                f"Functions call each other {depth} deep at {node.name!r}: recursive functions "
                "cannot be put in the place of their calls. Run the graph on TensorFlow.",
            )
        waiting += [(made, depth + 1) for made in reversed(_Call(node, library).expanded())]
    return result


def op_types(graph_def: Any) -> Iterator[str]:
    """The op types that importing needs: of the nodes, and of the functions that they call."""
    library = {f.signature.name: f for f in graph_def.library.function}
    seen: set[str] = set()
    waiting: list[Iterable[Any]] = [graph_def.node]
    while waiting:
        for node in waiting.pop():
            if not _is_functional(node, library):
                yield node.op
            for name in _called(node, library):
                if name in library and name not in seen:
                    seen.add(name)
                    waiting.append(library[name].node_def)


def _is_functional(node: Any, library: Mapping[str, Any]) -> bool:
    return node.op in FUNCTIONAL or node.op in library


def _called(node: Any, library: Mapping[str, Any]) -> list[str]:
    if node.op in library:
        return [node.op]
    return [attr.func.name for attr in node.attr.values() if attr.HasField("func")]


class _Call:
    """One node that calls functions."""

    def __init__(self, node: Any, library: Mapping[str, Any]) -> None:
        self._node = node
        self._library = library
        self._name = node.name
        self._inputs = [i for i in node.input if not i.startswith("^")]
        self._controls = [i for i in node.input if i.startswith("^")]
        self._made: list[Any] = []

    def expanded(self) -> list[Any]:
        """The nodes in its place."""
        if self._node.op in CONDITIONALS:
            self._conditional()
        elif self._node.op in LOOPS:
            self._loop()
        else:
            self._call()
        return self._made

    # -- the three kinds -----------------------------------------------------------------------

    def _call(self) -> None:
        own = self._node.op
        name = own if own in self._library else self._node.attr["f"].func.name
        waits = []
        if self._controls:
            self._add("NoOp", "input_control_node", self._controls)
            waits = [f"^{self._name}/input_control_node"]
        results, controls = self._instantiate(name, "", self._inputs, waits, eager=True)
        self._finish(results, controls or waits)

    def _conditional(self) -> None:
        pred, *inputs = self._inputs
        types = self._types("Tin")
        if "Tcond" in self._node.attr and self._node.attr["Tcond"].type != _BOOL:
            raise UnimplementedError.without_op(
                f"{self._node.op} {self._name!r} decides by a tensor that is not bool; the "
                "embedded engine needs a bool. Run the graph on TensorFlow.",
            )
        bool_type = {"T": _type(_BOOL)}
        self._add("Identity", "pred_id", [pred, *self._controls], bool_type)
        pred = f"{self._name}/pred_id"
        self._add("Switch", "switch", [pred, pred], bool_type)
        for i, (value, dtype) in enumerate(zip(inputs, types, strict=True)):
            self._add("Switch", f"switch_{i}", [value, pred], {"T": _type(dtype)})
        branches = []
        for slot, (key, place) in enumerate((("else_branch", "else"), ("then_branch", "then"))):
            end = f":{slot}" if slot else ""
            self._add("Identity", f"pivot_{place}", [f"{self._name}/switch{end}"], bool_type)
            pivot = f"^{self._name}/pivot_{place}"
            given = [f"{self._name}/switch_{i}{end}" for i in range(len(inputs))]
            function = self._node.attr[key].func.name
            results, controls = self._instantiate(function, f"{place}/", given, [pivot])
            self._add(
                "Identity", f"done_{place}", [f"{self._name}/pivot_{place}", *controls], bool_type
            )
            branches.append(results)
        merged = []
        for i, (pair, dtype) in enumerate(
            zip(zip(*branches, strict=True), self._types("Tout"), strict=True)
        ):
            self._add("Merge", f"merge_{i}", pair, {"T": _type(dtype), "N": AttrValue(i=2)})
            merged.append(f"{self._name}/merge_{i}")
        self._add(
            "Merge",
            "done",
            [f"{self._name}/done_else", f"{self._name}/done_then"],
            {**bool_type, "N": AttrValue(i=2)},
        )
        self._finish(merged, [f"^{self._name}/done"])

    def _loop(self) -> None:
        types = self._types("T")
        frame = AttrValue(s=f"{self._name}/while_context".encode())
        parallel = self._node.attr["parallel_iterations"].i or 10
        at = f"{self._name}/"
        for i, (value, dtype) in enumerate(zip(self._inputs, types, strict=True)):
            kind = {"T": _type(dtype)}
            self._add(
                "Enter",
                f"enter_{i}",
                [value, *self._controls],
                {**kind, "frame_name": frame, "parallel_iterations": AttrValue(i=parallel)},
            )
            self._add(
                "Merge",
                f"merge_{i}",
                [f"{at}enter_{i}", f"{at}next_{i}"],
                {**kind, "N": AttrValue(i=2)},
            )
        merged = [f"{at}merge_{i}" for i in range(len(types))]
        condition = self._node.attr["cond"].func.name
        (goes_on,), controls = self._instantiate(
            condition, "cond/", merged, [f"^{at}merge_0"], eager=False
        )
        self._add("LoopCond", "loop_cond", [goes_on, *controls])
        inside = []
        for i, dtype in enumerate(types):
            kind = {"T": _type(dtype)}
            self._add("Switch", f"switch_{i}", [f"{at}merge_{i}", f"{at}loop_cond"], kind)
            self._add("Identity", f"body_{i}", [f"{at}switch_{i}:1"], kind)
            inside.append(f"{at}body_{i}")
        body = self._node.attr["body"].func.name
        results, controls = self._instantiate(body, "body/", inside, [f"^{at}body_0"])
        left = []
        for i, (result, dtype) in enumerate(zip(results, types, strict=True)):
            kind = {"T": _type(dtype)}
            self._add("NextIteration", f"next_{i}", [result, *controls], kind)
            self._add("Exit", f"exit_{i}", [f"{at}switch_{i}"], kind)
            left.append(f"{at}exit_{i}")
        self._finish(left, [], "T")

    # -- parts ---------------------------------------------------------------------------------

    def _types(self, attr: str) -> list[int]:
        return list(self._node.attr[attr].list.type)

    def _add(
        self, op: str, name: str, inputs: Iterable[str], attrs: Mapping[str, Any] | None = None
    ) -> None:
        node = NodeDef(name=f"{self._name}/{name}", op=op, device=self._node.device)
        node.input.extend(inputs)
        for key, value in (attrs or {}).items():
            node.attr[key].CopyFrom(value)
        self._made.append(node)

    def _finish(self, results: Sequence[str], controls: Sequence[str], attr: str = "Tout") -> None:
        """The node itself: what it gives, when all that it stands for is done."""
        node = NodeDef(
            name=self._name, op="IdentityN" if results else "NoOp", device=self._node.device
        )
        node.input.extend([*results, *controls])
        if results:
            types = self._types(attr)
            if not types:
                function = self._library[self._node.op]
                types = [_arg_type(a, self._node) for a in function.signature.output_arg]
            node.attr["T"].list.type.extend(types)
        self._made.append(node)

    def _instantiate(
        self,
        function: str,
        place: str,
        given: Sequence[str],
        waits: Sequence[str],
        *,
        eager: bool = False,
    ) -> tuple[list[str], list[str]]:
        """Add a function's nodes: its results, and what has to be waited for.

        What has no inputs waits for `waits`; with `eager` so does what uses an argument.
        """
        if function not in self._library:
            raise ValueError(
                f"Node {self._name!r} calls the function {function!r}, which the GraphDef's "
                "library does not have."
            )
        definition = self._library[function]
        prefix = f"{self._name}/{place}"
        names = FunctionNames(definition, prefix, given)
        for original in definition.node_def:
            node = NodeDef.FromString(original.SerializeToString())
            node.name = prefix + original.name
            node.device = original.device or self._node.device
            inputs = [names.input(text) for text in original.input]
            uses_argument = any(i in given for i in inputs)
            if waits and (not inputs or (eager and uses_argument)):
                inputs += waits
            del node.input[:]
            node.input.extend(dict.fromkeys(inputs) if not inputs else _controls_last(inputs))
            for key, value in original.attr.items():
                if value.placeholder and value.placeholder in self._node.attr:
                    node.attr[key].CopyFrom(self._node.attr[value.placeholder])
            if "_class" in node.attr:
                del node.attr["_class"]
            self._made.append(node)
        results = [names.input(definition.ret[a.name]) for a in definition.signature.output_arg]
        controls = [f"^{prefix}{name}" for name in definition.control_ret.values()]
        return results, list(dict.fromkeys(controls))


def _controls_last(inputs: Sequence[str]) -> list[str]:
    data = [i for i in inputs if not i.startswith("^")]
    return data + list(dict.fromkeys(i for i in inputs if i.startswith("^")))


class FunctionNames:
    """What the names inside a function's definition are outside of it."""

    def __init__(self, definition: Any, prefix: str, given: Sequence[str]) -> None:
        arguments = [str(a.name) for a in definition.signature.input_arg]
        self._given: dict[str, str] = dict(zip(arguments, given, strict=True))
        self._nodes = {node.name: node for node in definition.node_def}
        self._prefix = prefix

    def input(self, text: str) -> str:
        """`argument`, `^node` or `node:output:number` as a GraphDef writes it."""
        if text.startswith("^"):
            name = text[1:]
            outside = self._given.get(name, f"{self._prefix}{name}")
            return f"^{outside.partition(':')[0]}"
        name, _, rest = text.partition(":")
        if name in self._given:
            return self._given[name]
        output, _, number = rest.partition(":")
        index = int(number or 0) + _offset(self._nodes[name], output)
        return f"{self._prefix}{name}" + (f":{index}" if index else "")


def _offset(node: Any, output: str) -> int:
    """Where the tensors of a named output begin among all of a node's outputs."""
    if node.op in FUNCTIONAL or not output:
        return 0
    try:
        outputs = lookup(node.op).outputs
    except UnimplementedError:
        return 0
    offset = 0
    for arg in outputs:
        if arg.name == output:
            return offset
        offset += _length(arg, node)
    raise ValueError(f"Node {node.name!r} ({node.op}) has no output {output!r}.")


def _length(arg: ArgSpec, node: Any) -> int:
    if arg.type_list_attr:
        return len(node.attr[arg.type_list_attr].list.type)
    return int(node.attr[arg.number_attr].i) if arg.number_attr else 1


def _arg_type(arg: Any, node: Any) -> int:
    return int(node.attr[arg.type_attr].type if arg.type_attr else arg.type)


def _type(number: int) -> Any:
    return AttrValue(type=number)
