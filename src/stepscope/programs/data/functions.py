"""The user's functions of datasets, as functions of the graph."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from stepscope._messages import AttrValue, NameAttrList
from stepscope.graph import convert_to_tensor, get_default_graph
from stepscope.graph.function_graph import FunctionGraph
from stepscope.graph.operation import Tensor
from stepscope.programs.data import nested


class ElementFunction:
    """What a user's function makes of elements: its graph, and the structure of what it returns.

    `result` is nested as the function returned it; its leaves are tensors of the graph.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        what: str,
        types: Any,
        shapes: Any,
        *,
        unpack: bool | None = None,
    ) -> None:
        """`types` and `shapes` are those of the elements; a tuple of them is passed as arguments
        (with `unpack`, or where that is left open).
        """
        outer = get_default_graph()
        name = re.sub(r"\W", "", getattr(function, "__name__", type(function).__name__))
        number = len(outer.functions)
        graph = FunctionGraph(f"__inference_{what}_{name}_{number}", outer)
        graph.function_name = getattr(function, "__name__", type(function).__name__)
        code = getattr(function, "__code__", None)
        graph.defined = "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
        with graph.as_default():
            leaves = zip(nested.leaves(types), nested.leaves(shapes), strict=True)
            inputs = [
                graph.add_input(dtype, shape, f"args_{i}")
                for i, (dtype, shape) in enumerate(leaves)
            ]
            element = nested.packed(types, inputs)
            as_arguments = isinstance(element, tuple) if unpack is None else unpack
            result = function(*element) if as_arguments else function(element)
            if isinstance(result, list):
                result = tuple(result)  # as of py_func; a tensor of them takes a tf.stack
            self.result = self._outputs(graph, result)
        outer.add_function(graph.name, graph)
        self.graph = graph

    def _outputs(self, graph: FunctionGraph, result: Any) -> Any:
        from stepscope.programs.data.dataset import Dataset

        found: list[Any] = []
        graph.outputs = []
        for leaf in nested.leaves(result):
            if isinstance(leaf, Dataset):
                found.append(leaf)
                tensor = leaf._variant_tensor
            else:
                tensor = convert_to_tensor(leaf)
                if tensor.graph is not graph or tensor.dtype._is_ref_dtype:
                    tensor = graph.create_op(
                        "Identity", [tensor], {"T": tensor.dtype.base_dtype}
                    ).values()[0]
                found.append(tensor)
            graph.outputs.append(tensor)
        return nested.packed(result, found)

    @property
    def attr(self) -> AttrValue:
        """The function as an attribute of an op."""
        return function_attr(self.graph)

    @property
    def captured(self) -> list[Tensor]:
        """The outer tensors that it takes along."""
        return self.graph.call_inputs()

    @property
    def types(self) -> Any:
        """The types of what it returns."""
        return nested.mapped(lambda tensor: tensor.dtype.base_dtype, self.result)

    @property
    def shapes(self) -> Any:
        """The shapes of what it returns."""
        return nested.mapped(lambda tensor: tensor.shape, self.result)


def function_attr(graph: FunctionGraph) -> AttrValue:
    """A function of the graph as an attribute of an op."""
    named = NameAttrList(name=graph.name)
    named.attr["_tf_data_function"].b = True
    return AttrValue(func=named)
