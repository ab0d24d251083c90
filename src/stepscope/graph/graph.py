"""`Graph`: the container of operations, and its collections.

Guarantees. Building a graph is safe from several threads. An operation, once whoever makes it is
done (a loop is made as a whole), never changes its inputs; what can still change (devices, control
inputs, attributes, static shapes) counts up `change_count`, so that whoever compiled something from
the graph can tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from stepscope.graph import device as device_names
from stepscope.graph.constants import constant_as_shape, known_value
from stepscope.graph.defaults import get_default_graph, graph_as_default
from stepscope.graph.dtypes import as_dtype
from stepscope.graph.operation import Operation, Tensor, places
from stepscope.graph.registry import REQUIRED, OpType, ShapeContext, infer_shapes, lookup
from stepscope.graph.scopes import Reentrant, Scoped
from stepscope.graph.shapes import TensorShape, as_shape


class GraphKeys:
    """Standard names of graph collections."""

    GLOBAL_VARIABLES = "variables"
    VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    SUMMARIES = "summaries"
    QUEUE_RUNNERS = "queue_runners"
    UPDATE_OPS = "update_ops"
    LOSSES = "losses"
    REGULARIZATION_LOSSES = "regularization_losses"
    GLOBAL_STEP = "global_step"
    EVAL_STEP = "eval_step"
    METRIC_VARIABLES = "metric_variables"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    READY_OP = "ready_op"
    READY_FOR_LOCAL_INIT_OP = "ready_for_local_init_op"
    SUMMARY_OP = "summary_op"
    TRAIN_OP = "train_op"
    SAVERS = "savers"
    MODEL_VARIABLES = "model_variables"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    TABLE_INITIALIZERS = "table_initializer"
    ASSET_FILEPATHS = "asset_filepaths"
    SAVEABLE_OBJECTS = "saveable_objects"
    WEIGHTS = "weights"
    BIASES = "biases"
    ACTIVATIONS = "activations"
    RESOURCES = "resources"
    LOCAL_RESOURCES = "local_resources"
    CONCATENATED_VARIABLES = "concatenated_variables"
    COND_CONTEXT = "cond_context"
    WHILE_CONTEXT = "while_context"


class Graph(Scoped):
    """A dataflow graph."""

    takes_from_outside = False
    """Whether ops of it may take tensors of another graph (`function_graph`)."""

    def __init__(self) -> None:
        super().__init__()
        self._by_name: dict[str, Operation] = {}
        self._collections: dict[str, list[Any]] = {}
        self._version = 0
        self._finalized = False
        self._unfeedable: set[Tensor] = set()
        self._functions: dict[str, Any] = {}
        self.seed: int | None = None

    # -- what it holds -------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The number of operations made so far, as TensorFlow counts it."""
        return len(self._by_name)

    @property
    def change_count(self) -> int:
        """Grows with every change that could alter a compiled plan of existing operations."""
        return self._version

    @property
    def finalized(self) -> bool:
        return self._finalized

    def finalize(self) -> None:
        """Refuse operations from now on."""
        self._finalized = True

    def _unsafe_unfinalize(self) -> None:
        """Take operations again, as before `finalize`."""
        self._finalized = False

    def get_operations(self) -> list[Operation]:
        with self._lock:
            return list(self._by_name.values())

    def get_operation_by_name(self, name: str) -> Operation:
        """The op of that name; KeyError otherwise, ValueError for a tensor's name."""
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        element = self.as_graph_element(name, allow_tensor=False)
        assert isinstance(element, Operation)
        return element

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor `op:index`; ValueError or KeyError that says what is wrong with the name."""
        element = self.as_graph_element(name, allow_operation=False)
        assert isinstance(element, Tensor)
        return element

    def as_graph_element(
        self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Tensor | Operation:
        """The tensor or operation meant by an object or a name, checked to be of this graph."""
        if allow_tensor and allow_operation:
            wanted = "Tensor or Operation"
        else:
            wanted = "Tensor" if allow_tensor else "Operation"
        convert = getattr(obj, "_as_graph_element", None)
        if convert is not None:
            obj = convert()
        if isinstance(obj, bytes):
            obj = obj.decode()
        if isinstance(obj, str):
            return self._element_by_name(obj, allow_tensor, allow_operation)
        if (isinstance(obj, Tensor) and allow_tensor) or (
            isinstance(obj, Operation) and allow_operation
        ):
            if obj.graph is not self:
                kind = "Tensor" if isinstance(obj, Tensor) else "Operation"
                raise ValueError(f"{kind} {obj!r} is not an element of this graph.")
            return obj
        raise TypeError(f"Can not convert a {type(obj).__name__} into a {wanted}.")

    def _element_by_name(
        self, name: str, allow_tensor: bool, allow_operation: bool
    ) -> Tensor | Operation:
        if ":" in name and allow_tensor:
            op_name, _, index = name.rpartition(":")
            if not index.isdigit() or ":" in op_name:
                raise ValueError(
                    f"The name {name!r} looks like a tensor name, but is not a valid one: "
                    "a tensor name is '<op_name>:<output_index>'."
                )
            op = self._by_name.get(op_name)
            if op is None:
                raise KeyError(
                    f"The name {name!r} refers to a Tensor which does not exist. The operation, "
                    f"{op_name!r}, does not exist in the graph."
                )
            if int(index) >= len(op.values()):
                raise KeyError(
                    f"The name {name!r} refers to a Tensor which does not exist. The operation, "
                    f"{op_name!r}, exists but only has {len(op.values())} outputs."
                )
            return op.values()[int(index)]
        if ":" in name:
            raise ValueError(f"{name!r} is a tensor's name; an operation's has no ':'.")
        op = self._by_name.get(name)
        if not allow_operation:
            hint = (
                "The operation exists; a tensor name ends in ':<output_index>', such as "
                f"'{name}:0'."
                if op is not None
                else "Tensor names are of the form '<op_name>:<output_index>'."
            )
            raise ValueError(f"The name {name!r} refers to an Operation, not a Tensor. {hint}")
        if op is None:
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
        return op

    # -- building ------------------------------------------------------------------------------

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
        """Add a node. `inputs` is a flat list of tensors; list lengths and types follow from attrs.

        Attributes that have a default may be left out. A name ending in "/" is taken as it is.
        """
        definition = lookup(op_type)
        complete = _complete_attrs(definition, dict(attrs or {}), op_type)
        for tensor in inputs:
            if tensor.graph is not self:
                raise ValueError(f"Tensor {tensor!r} must be from the same graph as the new op.")
        with self._lock:
            if self._finalized:
                raise RuntimeError("Graph is finalized and cannot be modified.")
            base = name if name else op_type
            final = base[:-1] if base.endswith("/") else self.unique_name(base)
            context = ShapeContext(
                op_type,
                complete,
                tuple(t.shape for t in inputs),
                tuple(t.dtype for t in inputs),
                lambda i: known_value(inputs[i]),
                lambda i: constant_as_shape(inputs[i]),
            )
            shapes = self._infer(definition, context, final, inputs)
            if output_shapes is not None:
                shapes = tuple(a.merge_with(b) for a, b in zip(shapes, output_shapes, strict=True))
            if self._scopes.colocation and "_class" not in complete:
                groups = {g for op in self._scopes.colocation for g in op.colocation_groups()}
                complete["_class"] = sorted(groups)
            op = Operation(
                self,
                len(self._by_name),
                final,
                definition,
                inputs,
                [*control_inputs, *self._implied_controls(inputs, control_inputs)],
                complete,
                "" if device is None else device_names.canonical(device),
                definition.output_dtypes(complete),
                shapes,
            )
            if device is None:
                op._device = self._device_for(op)
            self._by_name[final] = op
            self._waits_already(op)
            if self._scopes.context is not None:
                self._scopes.context.add_op(op)
        return op

    def _infer(
        self, definition: OpType, context: ShapeContext, name: str, inputs: Sequence[Tensor]
    ) -> tuple[TensorShape, ...]:
        try:
            return infer_shapes(definition, context)
        except ValueError as error:
            shapes = ", ".join(s.brief() for s in context.inputs)
            names = ", ".join(t.op.name for t in inputs)
            raise ValueError(
                f"{str(error).rstrip('.')} for '{{{{node {name}}}}} = {definition.name}({names})' "
                f"with input shapes: {shapes}. {places(inputs)}"
            ) from None
        except TypeError as error:
            raise TypeError(f"{error} {places(inputs)}") from error

    def as_default(self) -> Any:
        """A context manager that makes this the default graph of the thread."""
        return graph_as_default(self)

    # -- functions -----------------------------------------------------------------------------

    @property
    def outermost(self) -> Graph:
        """The graph that this one is a function of, or itself."""
        return self

    def add_function(self, name: str, function: Any) -> None:
        """Keep a `FunctionGraph`, or something that makes it when it is called."""
        kept = self.outermost
        with kept._lock:
            kept._functions[name] = function

    def get_function(self, name: str) -> Any:
        """The `FunctionGraph` of that name; ValueError if there is none."""
        kept = self.outermost
        with kept._lock:
            if name not in kept._functions:
                raise ValueError(f"The graph has no function {name!r}; it has: {kept.functions}.")
            found = kept._functions[name]
            if not isinstance(found, Graph):
                found = kept._functions[name] = found()
            return found

    @property
    def functions(self) -> list[str]:
        """The names of its functions, in the order they were made."""
        return list(self.outermost._functions)

    # -- collections ---------------------------------------------------------------------------

    def add_to_collection(self, name: str, value: Any) -> None:
        with self._lock:
            self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: str | Iterable[str], value: Any) -> None:
        for name in (names,) if isinstance(names, str) else set(names):
            self.add_to_collection(name, value)

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """The items; with a scope only those whose name matches that regular expression."""
        with self._lock:
            items = list(self._collections.get(name, ()))
        if scope is None:
            return items
        pattern = re.compile(scope)
        return [i for i in items if hasattr(i, "name") and pattern.match(i.name)]

    def get_collection_ref(self, name: str) -> list[Any]:
        """The list itself: what is added to it is in the collection."""
        with self._lock:
            return self._collections.setdefault(name, [])

    def get_all_collection_keys(self) -> list[str]:
        with self._lock:
            return [k for k, v in self._collections.items() if isinstance(k, str) and v]

    @property
    def collections(self) -> list[str]:
        return self.get_all_collection_keys()

    def clear_collection(self, name: str) -> None:
        with self._lock:
            self._collections.pop(name, None)

    # -- out -----------------------------------------------------------------------------------

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """The GraphDef message, wire-compatible with TensorFlow's."""
        from stepscope.graph.graph_def import graph_def_of

        return graph_def_of(self, from_version, add_shapes)

    def is_feedable(self, tensor: Any) -> bool:
        """Whether it may be fed.

        Nothing may that is part of a branch or a loop, or by whose value the graph was built.
        """
        return self.as_graph_element(tensor) not in self._unfeedable and self.is_fetchable(tensor)

    def prevent_feeding(self, tensor: Tensor) -> bool:
        """Let nobody feed the tensor from now on; whether one could until now."""
        with self._lock:
            before = len(self._unfeedable)
            self._unfeedable.add(tensor)
            return len(self._unfeedable) > before

    def is_fetchable(self, element: Any) -> bool:
        """Whether it may be fetched: what a branch or a loop gives out may, what is inside not."""
        found = self.as_graph_element(element)
        op = found.op if isinstance(found, Tensor) else found
        context = op._context
        return context is None or (op.type in ("Exit", "RefExit") and context.outer is None)

    def _note_change(self) -> None:
        self._version += 1

    def __repr__(self) -> str:
        return f"<stepscope.Graph with {len(self._by_name)} operations>"


def _complete_attrs(definition: OpType, attrs: dict[str, Any], op_type: str) -> dict[str, Any]:
    for name, spec in definition.attrs.items():
        if name not in attrs:
            if spec.default is REQUIRED:
                raise ValueError(f"Op {op_type} needs the attr {name!r} ({spec.kind}).")
            attrs[name] = spec.default
        else:
            attrs[name] = _normalise(spec.kind, attrs[name])
    unknown = [n for n in attrs if n not in definition.attrs and not n.startswith("_")]
    if unknown:
        known = ", ".join(definition.attrs) or "none"
        raise ValueError(f"Op {op_type} has no attr {unknown[0]!r}; it has: {known}.")
    return attrs


def _normalise(kind: str, value: Any) -> Any:
    if kind == "type":
        return as_dtype(value)
    if kind == "shape":
        return as_shape(value)
    if kind == "string" and isinstance(value, str):
        return value.encode()
    if kind == "list(type)":
        return [as_dtype(v) for v in value]
    if kind == "list(shape)":
        return [as_shape(v) for v in value]
    return value


def name_scope(
    name: str | None, default_name: str | None = None, values: Iterable[Any] | None = None
) -> AbstractContextManager[str]:
    """TensorFlow 1's `tf.name_scope`: `name`, else `default_name`, in the graph of `values`.

    Each time the block is entered, the name is made unique anew.
    """
    own = name if name is not None else default_name

    @contextmanager
    def entered() -> Iterator[str]:
        graph = graph_of(values or ())
        with graph.as_default(), graph.name_scope(own) as scope:
            yield scope

    return Reentrant(entered)


def graph_of(values: Iterable[Any]) -> Graph:
    """The graph the given tensors belong to, else the default graph.

    Inside of a function it is the function, which takes tensors from outside.
    """
    default = get_default_graph()
    if default.takes_from_outside:
        return default
    for value in values:
        graph = getattr(value, "graph", None)
        if isinstance(graph, Graph):
            return graph
    return default


def device(device_name_or_function: Any) -> Any:
    return get_default_graph().device(device_name_or_function)


def control_dependencies(control_inputs: Iterable[Any] | None) -> Any:
    return get_default_graph().control_dependencies(control_inputs)


def colocate_with(op: Any, ignore_existing: bool = False) -> Any:
    return get_default_graph().colocate_with(op, ignore_existing)


def add_to_collection(name: str, value: Any) -> None:
    get_default_graph().add_to_collection(name, value)


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: str) -> list[Any]:
    return get_default_graph().get_collection_ref(key)
