"""A step that can be run again and again: its graph in a session of its own, with variables set.

The variables begin with what their initializers give, as they do in the program; those of another
trial of the same step can be taken over, so that both begin alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from stepscope._messages import GraphDef
from stepscope.analysis.execution.edges import input_node
from stepscope.errors import FailedPreconditionError, StepscopeError
from stepscope.graph import Graph
from stepscope.graph.graph_def import PRODUCER, import_graph_def
from stepscope.metadata import RunMetadata
from stepscope.options import ConfigProto, RunOptions
from stepscope.proofs.made_values import Choice, made
from stepscope.proofs.recorded_step import FedTensor, StepGraph, closure
from stepscope.runtime.session import Session

__all__ = ["Trial"]

_VARIABLES: Final = frozenset({"VariableV2", "Variable", "VarHandleOp"})
_ASSIGNMENTS: Final = frozenset({"Assign", "AssignVariableOp"})
_LONGEST_MS: Final = 60_000
"""A step that takes longer by itself is not measured."""


class Trial:
    """A session with the step's graph. Enter it; what it holds is given back when it is left."""

    def __init__(self, step: StepGraph, whole: Mapping[str, Any], trace_level: int) -> None:
        """`whole` is the graph of the program, where the variables' initializers are."""
        self.step = step
        self._initializers = _initializers(step.nodes, whole)
        wanted = closure(whole, self._initializers.values())
        proto = GraphDef()
        proto.versions.producer = PRODUCER
        proto.node.extend({**wanted, **step.nodes}.values())
        self.graph = Graph()
        with self.graph.as_default():
            try:
                import_graph_def(proto, name="")
            except (TypeError, ValueError) as error:  # a shape or a type that does not fit
                raise StepscopeError(f"the graph does not allow it: {error}") from error
        self._fetches = [
            *(self.graph.get_tensor_by_name(name) for name in step.fetches),
            *(self.graph.get_operation_by_name(name) for name in step.targets),
        ]
        self._fed = [self.graph.get_tensor_by_name(fed.name) for fed in step.feeds]
        self._options = RunOptions(trace_level=trace_level)
        config = ConfigProto(
            device_count={"CPU": step.cpus}, inter_op_parallelism_threads=step.threads
        )
        self._session = Session(graph=self.graph, config=config)
        self._first: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._session.close()

    def initialize(self) -> None:
        """Give the variables what their initializers make."""
        left = dict(self._initializers)
        fed = self._made_for(left.values())
        while left:
            before = len(left)
            for variable, assign in list(left.items()):
                op = self.graph.get_operation_by_name(assign)
                try:
                    self._first[variable] = self._session.run(op.inputs[1], fed)
                except FailedPreconditionError:
                    continue  # it begins with what another one holds
                self._session.run(op, {op.inputs[1]: self._first[variable]})
                del left[variable]
            if len(left) == before:
                raise StepscopeError(f"the variable `{next(iter(left))}` cannot be initialized")

    def like(self, other: Trial) -> None:
        """Give the variables what those of another trial began with."""
        self._first = other._first
        self.reset()

    def reset(self) -> None:
        """Give the variables what they began with."""
        for variable, assign in self._initializers.items():
            op = self.graph.get_operation_by_name(assign)
            self._session.run(op, {op.inputs[1]: self._first[variable]})

    def values(self, choice: Choice, seed: int) -> list[Any]:
        """What is fed, made anew."""
        return [made(fed, choice, seed) for fed in self.step.feeds]

    def run(self, values: Sequence[Any], metadata: RunMetadata | None = None) -> list[Any]:
        """Run the step; what it fetches."""
        found = metadata if metadata is not None else RunMetadata()
        feeds = dict(zip(self._fed, values, strict=True))
        fetched = self._session.run(self._fetches, feeds, self._options, found)
        return list(fetched[: len(self.step.fetches)])

    def look(self, values: Sequence[Any]) -> RunMetadata:
        """Run the step once, with a deadline; what it did."""
        metadata = RunMetadata()
        options = RunOptions(trace_level=RunOptions.FULL_TRACE, timeout_in_ms=_LONGEST_MS)
        feeds = dict(zip(self._fed, values, strict=True))
        self._session.run(self._fetches, feeds, options, metadata)
        return metadata

    def evaluated(self, tensors: Sequence[str], values: Sequence[Any]) -> list[Any]:
        """What some tensors of the graph are."""
        feeds = dict(zip(self._fed, values, strict=True))
        found = self._session.run([self.graph.get_tensor_by_name(name) for name in tensors], feeds)
        return list(found)

    def _made_for(self, assignments: Any) -> dict[Any, Any]:
        """Values for placeholders that initializers read."""
        found: dict[Any, Any] = {}
        for name in closure(self._nodes_by_name(), assignments):
            op = self.graph.get_operation_by_name(name)
            if op.type == "Placeholder":
                tensor = op.outputs[0]
                shape = tensor.shape.as_list() if tensor.shape.rank is not None else []
                fed = FedTensor(
                    tensor.name, tensor.dtype.as_datatype_enum, tuple(n or 1 for n in shape)
                )
                found[tensor] = made(fed, Choice())
        return found

    def _nodes_by_name(self) -> dict[str, Any]:
        return {op.name: op.node_def for op in self.graph.get_operations()}


def _initializers(needed: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, str]:
    """For each variable of the step the op that sets it first."""
    variables = [name for name, node in needed.items() if node.op in _VARIABLES]
    found: dict[str, str] = {}
    for name, node in whole.items():
        if node.op not in _ASSIGNMENTS or name in needed:
            continue
        variable = input_node(node.input[0])
        if variable not in found or name == f"{variable}/Assign":
            found[variable] = name
    unknown = [name for name in variables if name not in found]
    if unknown:
        raise StepscopeError(f"the graph does not say what the variable `{unknown[0]}` begins with")
    return {name: found[name] for name in variables}
