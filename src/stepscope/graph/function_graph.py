"""Functions of a graph: what a dataset's `map` calls for each element, as a graph of its own.

A `FunctionGraph` has inputs, outputs and ops between them. What an op inside takes from outside is
*captured*: it becomes one more input, and whoever calls the function passes the outer tensor along.

    >>> import stepscope.ops
    >>> from stepscope.graph import constant_op
    >>> from stepscope.graph.dtypes import int32
    >>> from stepscope.graph.shapes import TensorShape
    >>> with Graph().as_default() as outer:
    ...     three = constant_op(3, name="three")
    ...     function = FunctionGraph("plus", outer)
    ...     with function.as_default():
    ...         x = function.add_input(int32, TensorShape([]), "x")
    ...         added = function.create_op("AddV2", [x, three], {"T": int32})
    ...         function.outputs = added.outputs
    >>> [t.name for t in function.captures], [t.name for t in function.inputs]
    (['three:0'], ['x:0', 'addv2_three:0'])

The functions of a graph, and of the functions in it, are kept by name in the outermost graph, and
go into its GraphDef as TensorFlow's `FunctionDef`s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from stepscope._messages import AttrValue, FunctionDef, GraphDef, NodeDef
from stepscope.graph.dtypes import DType
from stepscope.graph.functions import FunctionNames
from stepscope.graph.graph import Graph
from stepscope.graph.graph_def import import_graph_def, node_def_of
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import arg_dtypes
from stepscope.graph.shapes import TensorShape

__all__ = ["FunctionGraph", "copied_into", "function_def", "function_of_def", "used_functions"]


class FunctionGraph(Graph):
    """A function of an outer graph. `inputs` are its own, then those for `captures`."""

    takes_from_outside = True

    def __init__(self, name: str, outer: Graph) -> None:
        super().__init__()
        self.name = name
        self.outer = outer
        self.seed = outer.seed
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.captures: dict[Tensor, Tensor] = {}
        """By the outer tensor what stands for it inside, in the order of `inputs`."""
        self.function_name = ""
        self.defined = ""
        """The user's function and its `file:line`."""

    @property
    def outermost(self) -> Graph:
        return self.outer.outermost

    def add_input(self, dtype: DType, shape: TensorShape, name: str) -> Tensor:
        """One more argument."""
        op = super().create_op("Placeholder", [], {"dtype": dtype.base_dtype, "shape": shape}, name)
        self.inputs.append(op.values()[0])
        return op.values()[0]

    def create_op(
        self,
        op_type: str,
        inputs: Sequence[Tensor] = (),
        attrs: Mapping[str, Any] | None = None,
        name: str | None = None,
        control_inputs: Sequence[Operation] = (),
        device: str | None = None,
        output_shapes: Sequence[TensorShape] | None = None,
    ) -> Operation:
        """As of any graph; inputs from outside are captured."""
        base = (name or op_type).strip("/").rpartition("/")[2]
        own = [t if t.graph is self else self._captured(t, base) for t in inputs]
        controls = [c for c in control_inputs if c.graph is self]
        return super().create_op(op_type, own, attrs, name, controls, device, output_shapes)

    def _captured(self, tensor: Tensor, user: str) -> Tensor:
        inside = self.captures.get(tensor)
        if inside is None:
            around: Any = tensor.graph
            if around is not self.outer and not self.outer.takes_from_outside:
                raise ValueError(
                    f"{tensor!r} is of another graph than the one that the function {self.name!r} "
                    "is made in."
                )
            with self.control_dependencies(None), self.name_scope(None), self.flow_context(None):
                name = f"{user}_{tensor.op.name.rpartition('/')[2]}".lower()
                inside = self.add_input(tensor.dtype, tensor.shape, name)
            self.captures[tensor] = inside
        return inside

    @contextmanager
    def control_dependencies(self, inputs: Iterable[Any] | None) -> Iterator[None]:
        """As of any graph; what is outside is done before the function is called."""
        if inputs is not None:
            inputs = [i for i in inputs if getattr(i, "graph", self) is self]
        with super().control_dependencies(inputs):
            yield

    def call_inputs(self) -> list[Tensor]:
        """The outer tensors to pass along where the function is used."""
        return list(self.captures)

    def is_stateful(self) -> bool:
        """Whether calling it again with the same arguments may give something else."""
        return any(op.op_type.stateful for op in self.get_operations())

    def __repr__(self) -> str:
        return f"<stepscope.FunctionGraph {self.name!r} with {len(self.inputs)} inputs>"


# -- by value ----------------------------------------------------------------------------------


def copied_into(function: FunctionGraph, tensor: Tensor) -> Tensor:
    """The tensor with all that it follows from, made again inside of the function.

    As in TensorFlow, what it only waits for stays outside.
    ValueError where that cannot be: a placeholder is fed to the outer graph, a variable is its own.
    """
    done: dict[Operation, Operation] = {}
    stack = [tensor.op]
    while stack:
        op = stack[-1]
        waiting = [t.op for t in op.inputs if t.op not in done]
        if op in done:
            stack.pop()
        elif waiting:
            stack += waiting
        else:
            _refuse_outer_state(op)
            inputs = [done[t.op].values()[t.value_index] for t in op.inputs]
            done[op] = function.create_op(
                op.type,
                inputs,
                op.attrs,
                f"{op.name}/",
                output_shapes=[t.shape for t in op.values()],
            )
            stack.pop()
    return done[tensor.op].values()[tensor.value_index]


def _refuse_outer_state(op: Operation) -> None:
    if op.type == "Placeholder":
        raise ValueError(f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by value.")
    of_dataset = any(t.dtype.name == "variant" for t in op.values())
    if op.op_type.stateful and not of_dataset:
        raise ValueError(
            f"Cannot capture a stateful node (name:{op.name}, type:{op.type}) by value."
        )


# -- messages ----------------------------------------------------------------------------------


def function_def(function: FunctionGraph) -> Any:
    """The function as TensorFlow's message."""
    made = FunctionDef()
    made.signature.name = function.name
    names: dict[Tensor, str] = {}
    for tensor in function.inputs:
        arg = made.signature.input_arg.add()
        arg.name, arg.type = tensor.op.name, tensor.dtype.base_dtype.as_datatype_enum
        names[tensor] = tensor.op.name
    own = {t.op for t in function.inputs}
    # A loop goes back: all names before any node.
    for op in function.get_operations():
        if op not in own:
            names.update(zip(op.values(), _output_names(op), strict=True))
    for op in function.get_operations():
        if op not in own:
            node = NodeDef.FromString(node_def_of(op).SerializeToString())
            controls = [text for text in node.input if text.startswith("^")]
            del node.input[:]
            node.input.extend([*(names[t] for t in op.inputs), *controls])
            made.node_def.append(node)
    for i, tensor in enumerate(function.outputs):
        arg = made.signature.output_arg.add()
        arg.name, arg.type = f"output_{i}", tensor.dtype.base_dtype.as_datatype_enum
        made.ret[arg.name] = names[tensor]
    made.signature.is_stateful = function.is_stateful()
    return made


def used_functions(graph: Graph) -> list[FunctionGraph]:
    """The functions that ops of the graph name in their attributes, and those that these name."""
    found: dict[str, FunctionGraph] = {}
    waiting: list[Graph] = [graph]
    while waiting:
        for op in waiting.pop().get_operations():
            for value in op.attrs.values():
                if isinstance(value, AttrValue) and value.HasField("func"):
                    name = value.func.name
                    if name not in found:
                        found[name] = graph.get_function(name)
                        waiting.append(found[name])
    return list(found.values())


def _output_names(op: Operation) -> list[str]:
    """How a function's nodes call the outputs of one of them: `node:argument:number`."""
    return [
        f"{op.name}:{arg.name}:{i}"
        for arg in op.op_type.outputs
        for i in range(len(arg_dtypes(arg, op.attrs)))
    ]


def function_of_def(definition: Any, outer: Graph, library: Any) -> FunctionGraph:
    """A function read from a message; `library` has those that it calls."""
    name = definition.signature.name
    function = FunctionGraph(name, outer)
    arguments = [str(a.name) for a in definition.signature.input_arg]
    names = FunctionNames(definition, "", arguments)
    body = GraphDef()
    body.library.CopyFrom(type(body.library).FromString(library.SerializeToString()))
    for argument in definition.signature.input_arg:
        node = body.node.add(name=argument.name, op="Placeholder")
        node.attr["dtype"].type = argument.type
    for original in definition.node_def:
        node = NodeDef.FromString(original.SerializeToString())
        del node.input[:]
        node.input.extend(names.input(text) for text in original.input)
        body.node.append(node)
    results = [names.input(definition.ret[a.name]) for a in definition.signature.output_arg]
    wanted = [text if ":" in text else f"{text}:0" for text in [*arguments, *results]]
    with function.as_default():
        found = import_graph_def(body, None, wanted, name="")
    assert found is not None
    function.inputs, function.outputs = found[: len(arguments)], found[len(arguments) :]
    return function
