"""A graph of the embedded engine, run on TensorFlow: in this process, or on a cluster.

Guarantees. Every node is there under its own name, device, attributes and control inputs, so that a
name in the metadata is a name in the program. The graph may grow between runs: what is new is added
to the same TensorFlow graph and session, so variables keep their values. What was exported cannot
change any more; a program that changes it is told so. One engine may be used by any number of
threads. Source lines, in metadata and in errors, are those of the program.

The graph is known by what it does, not by its class: `get_operations()`, `change_count`,
`functions`, `as_graph_def()`, and of each operation `name`, `node_def` and `source`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import tensorflow

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.failures import new_error
from stepscope.adapters.tensorflow.runs.cluster import is_cluster
from stepscope.adapters.tensorflow.runs.session import Session

v1 = tensorflow.compat.v1
_PYTHON_OPS: Final = frozenset({"PyFunc", "PyFuncStateless"})
_WHERE: Final = re.compile(
    r"(Detected at node '([^']+)' defined at) \(most recent call last\):\n(?:    File .*\n)+"
)
"""What TensorFlow says of where a node was made: for ours, in this file."""


class EmbeddedGraph:
    """The engine that serves a session of an embedded graph whose target is TensorFlow's."""

    def __init__(
        self,
        target: str,
        graph: Any,
        config: Any,
        python_function: Callable[[str], Callable[..., Any] | None],
    ) -> None:
        """`config` is ours; `python_function` finds the function of a `PyFunc` by its token."""
        if len(config.memory_limit_bytes):
            raise new_error(
                "UnimplementedError",
                f"ConfigProto.memory_limit_bytes: the session target {target!r} has no limits of "
                "a session's own; leave it out.",
            )
        self._source = graph
        self._target = target if is_cluster(target) else ""
        self._python_function = python_function
        self._graph = tensorflow.Graph()
        self._config = config
        self._session = _Session(self._target, self._graph, config)
        self._session.sources = self._sources
        self._lock = threading.Lock()
        self._exported: dict[str, bytes] = {}
        self._changes = graph.change_count
        self._functions: list[Callable[..., Any]] = []
        self._function_count = 0

    def run(
        self,
        tensors: Sequence[str],
        targets: Sequence[str],
        feeds: Mapping[str, Any],
        options: Any,
        run_metadata: Any,
    ) -> list[Any]:
        """The values of these tensors; the targets are executed with them."""
        with self._lock:
            self._extend()
        values = self._session.run([*tensors, *targets], dict(feeds), options, run_metadata)
        return list(values[: len(tensors)])

    def list_devices(self) -> list[Any]:
        """The devices of all tasks."""
        return list(self._session.list_devices())

    def reset(self, containers: Any) -> None:
        """Forget the variables in these containers of the cluster, or in all."""
        if self._target:
            config = v1.ConfigProto.FromString(self._config.SerializeToString())
            v1.Session.reset(self._target, containers, config)

    def close(self) -> None:
        """Stop what is running; on a cluster the variables stay."""
        self._session.close()

    # -- exporting -----------------------------------------------------------------------------

    def _sources(self) -> dict[str, str]:
        return {op.name: op.source for op in self._source.get_operations() if op.source}

    def _extend(self) -> None:
        changes = self._source.change_count
        operations = self._source.get_operations()
        if changes != self._changes:
            self._refuse_changes(operations)
            self._changes = changes
        if len(operations) == len(self._exported):
            return
        new = [
            v1.NodeDef.FromString(op.node_def.SerializeToString())
            for op in operations[len(self._exported) :]
        ]
        self._refuse_unknown(new)
        self._add_functions()
        back = _ways_back(new)
        for node in _inputs_first(new, back):
            exported = node.SerializeToString(deterministic=True)
            self._add(node, back)
            self._exported[node.name] = exported
        for name, text in back:
            merge = self._graph.get_operation_by_name(name)
            merge._update_input(1, self._tensor(text))

    def _add_functions(self) -> None:
        """The functions that nodes call: those of datasets."""
        names = self._source.functions
        if len(names) == self._function_count:
            return
        self._function_count = len(names)
        library = v1.GraphDef.FromString(self._source.as_graph_def().SerializeToString()).library
        for function in library.function:
            for node in function.node_def:
                if node.op in _PYTHON_OPS:
                    node.attr["token"].s = self._token(node).encode()
        message = v1.GraphDef(library=library)
        with self._graph.as_default():
            v1.import_graph_def(message, name="")

    def _refuse_changes(self, operations: Iterable[Any]) -> None:
        for op in operations:
            known = self._exported.get(op.name)
            if known is None:
                continue
            node = v1.NodeDef.FromString(op.node_def.SerializeToString())
            if node.SerializeToString(deterministic=True) != known:
                raise new_error(
                    "FailedPreconditionError",
                    f"The operation {op.name!r} was changed after the graph ran on TensorFlow, "
                    "where that has no effect; change it before the first run, or make a new "
                    "session.",
                )

    def _refuse_unknown(self, nodes: Iterable[Any]) -> None:
        missing: dict[str, int] = {}
        for node in nodes:
            if versions.op_def(node.op) is None:
                missing[node.op] = missing.get(node.op, 0) + 1
        if missing:
            listed = ", ".join(f"{op} (x{count})" for op, count in sorted(missing.items()))
            raise new_error(
                "UnimplementedError",
                f"TensorFlow does not have {len(missing)} op type(s) of this graph: {listed}. "
                "Ops of your own run on the embedded engine only.",
            )

    def _add(self, node: Any, back: set[tuple[str, str]]) -> None:
        graph = self._graph
        inputs: list[Any] = []
        controls: list[Any] = []
        for text in node.input:
            if text.startswith("^"):
                controls.append(graph.get_operation_by_name(text[1:]))
            elif (node.name, text) in back:
                # Until what comes back is there, what goes in stands for it.
                inputs.append(inputs[0])
            else:
                inputs.append(self._tensor(text))
        attrs = dict(node.attr)
        if node.op in _PYTHON_OPS:
            attrs["token"] = v1.AttrValue(s=self._token(node).encode())
        known = {attr.name for attr in versions.op_def(node.op).attr}
        for name in list(attrs):
            if name not in known and not name.startswith("_") and _is_empty(attrs[name]):
                del attrs[name]  # of a later version of the op, where it asks for nothing
        with graph.as_default(), graph.device(None), graph.control_dependencies(controls):
            op = graph.create_op(
                node.op,
                inputs,
                input_types=[tensor.dtype for tensor in inputs],
                name=f"{node.name}/",
                attrs=attrs,
            )
        op._set_device(node.device)

    def _tensor(self, text: str) -> Any:
        name, _, index = text.partition(":")
        return self._graph.get_operation_by_name(name).outputs[int(index or 0)]

    def _token(self, node: Any) -> str:
        """The function of a Python op, under a token of TensorFlow's."""
        if self._target:
            raise new_error(
                "UnimplementedError",
                f"The operation {node.name!r} ({node.op}) calls a Python function of this "
                "process, which a cluster cannot; use ops that TensorFlow has.",
            )
        function = self._python_function(node.attr["token"].s.decode())
        if function is None:
            raise new_error(
                "InvalidArgumentError",
                f"The operation {node.name!r} ({node.op}) calls a Python function that is not in "
                "this process, or is gone with the graph it was made in.",
            )

        def call(*inputs: Any) -> Any:
            return function(*inputs)

        self._functions.append(call)  # TensorFlow knows it weakly
        return versions.register_python_function(call)


def _ways_back(nodes: Sequence[Any]) -> set[tuple[str, str]]:
    """The Merges at the beginnings of loops, each with its second input: what comes back."""
    kinds = {node.name: node.op for node in nodes}
    return {
        (node.name, node.input[1])
        for node in nodes
        if node.op in ("Merge", "RefMerge")
        and kinds.get(node.input[1]) in ("NextIteration", "RefNextIteration")
    }


def _inputs_first(nodes: Sequence[Any], back: set[tuple[str, str]]) -> list[Any]:
    """The nodes in an order in which each comes after what it needs; loops are cut."""
    by_name = {node.name: node for node in nodes}
    order: dict[str, Any] = {}
    waiting = [(node, False) for node in reversed(nodes)]
    while waiting:
        node, is_due = waiting.pop()
        if node.name in order:
            continue
        if is_due:
            order[node.name] = node
            continue
        waiting.append((node, True))
        for text in node.input:
            name = text.lstrip("^").partition(":")[0]
            if name in by_name and name not in order and (node.name, text) not in back:
                waiting.append((by_name[name], False))
    return list(order.values())


class _Session(Session):
    """A session whose errors say where the program made a node."""

    @property
    def sources(self) -> Callable[[], dict[str, str]] | None:
        return self._stepscope.sources

    @sources.setter
    def sources(self, find: Callable[[], dict[str, str]]) -> None:
        self._stepscope.sources = find

    def native_run(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().native_run(*args, **kwargs)
        except tensorflow.errors.OpError as error:
            sources = self.sources() if self.sources is not None else {}

            def ours(found: re.Match[str]) -> str:
                return f"{found[1]}:\n    {sources.get(found[2], 'no line that is known')}\n"

            error._message = _WHERE.sub(ours, error.message)
            raise


def _is_empty(attr: Any) -> bool:
    """Whether an attribute holds nothing, zero, or an empty text or list."""
    which = attr.WhichOneof("value")
    if which == "list":
        return not attr.list.ByteSize()
    return which is None or not getattr(attr, which)
