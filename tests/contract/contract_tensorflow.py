"""TensorFlow's four ways to run a program, as engines of the contract.

TensorFlow's optimizers are off: they rename, fold and fuse, and the tests look for the nodes that a
program has.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import os
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from contract_cluster import GAPS
from contract_engines import EmbeddedEngine, Engine, Program, SessionEngine

import stepscope
from stepscope.metadata import MEMORY_OF_KERNELS, MEMORY_OF_THE_SYSTEM, RunMetadata
from stepscope.options import ConfigProto

KERNEL_TIMES = "kernel times of eager ops"
_numbers = itertools.count(1)
_MADE_ONCE = frozenset({"FIFOQueueV2", "VarHandleOp"})
"""Ops that make something which outlives a run: in eager code they stand before it."""


def import_tensorflow() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow
    return tensorflow


class Ops:
    """`tf.compat.v1`, with variables and queues as functions and eager code can hold them."""

    def __init__(self, v1: Any) -> None:
        self._v1 = v1
        self.kept: list[Any] = []
        self.python: dict[str, Any] = {}
        """Python functions by the node that calls them."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._v1, name)

    def Variable(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["use_resource"] = True
        self.kept.append(self._v1.Variable(*args, **kwargs))
        return self.kept[-1]

    def FIFOQueue(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["shared_name"] = f"contract_{next(_numbers)}"
        self.kept.append(self._v1.FIFOQueue(*args, **kwargs))
        return self.kept[-1]

    def py_func(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        made = self._v1.py_func(function, *args, **kwargs)
        self.python[made.op.name] = function
        return made

    def global_variables_initializer(self) -> Any:
        """Nothing to do: outside of sessions variables have their values from the start."""
        return self._v1.no_op()

    def readable(self, value: Any) -> Any:
        """A value that can be fetched: a variable's, where it is a variable."""
        return value.read_value() if hasattr(value, "read_value") else value


class OnTensorFlow(Engine):
    """What they have in common."""

    always_lost = frozenset({MEMORY_OF_KERNELS, "memory from before the run"})
    # Python's collector may destroy a queue or a variable of another test in a run: an eager op.
    may_be_lost = frozenset({"source lines", KERNEL_TIMES})
    stress = 12, 6  # of profiled runs those at once wait for each other

    def __init__(self) -> None:
        super().__init__()
        self.tensorflow = import_tensorflow()
        from stepscope.adapters.tensorflow.support import SUPPORT

        self.ops = self.tensorflow.compat.v1
        self.support = SUPPORT[self.name]


class TensorFlowSession(OnTensorFlow, SessionEngine):
    """`stepscope.adapters.tensorflow.Session`."""

    name = "tensorflow session"
    names_a_step_in_flight = False
    stops_between_ops = False
    names_a_dequeue_without_a_trace = False
    lost_of_times = frozenset({"threads"})  # TensorFlow's own step stats tell of later runs
    cause_after_a_stuck_op = "never"  # TensorFlow keeps it to itself until all ops have ended

    def interrupts(self, options: Mapping[str, Any], *, python: bool = True) -> bool:
        return "timeout_in_ms" in options or (python and options.get("inter_op_thread_pool") == -1)

    def interrupted(self, options: Mapping[str, Any]) -> tuple[type[BaseException], str]:
        if options.get("inter_op_thread_pool") == -1:  # TensorFlow's own: it is the op's error
            return self.errors.UnknownError, "UNKNOWN"
        return super().interrupted(options)

    def new_graph(self) -> Any:
        return self.tensorflow.Graph()

    def new_session(self, graph: Any, config: Any) -> Any:
        from stepscope.adapters.tensorflow import Session

        given = ConfigProto() if config is None else config
        if hasattr(given, "SerializeToString") and hasattr(given, "graph_options"):
            given = type(given).FromString(given.SerializeToString())
            given.graph_options.rewrite_options.disable_meta_optimizer = True
            given.graph_options.optimizer_options.opt_level = -1
        return Session(self.target(), graph=graph, config=given)

    def target(self) -> str:
        """Where its sessions run."""
        return ""


class TensorFlowCluster(TensorFlowSession):
    """The same on a server of TensorFlow's in this process, so that Python functions are here."""

    name = "tensorflow cluster"
    always_lost = frozenset({"threads", "sends"})
    may_be_lost = frozenset({"ops inside Python functions"})
    gaps = GAPS
    _server: Any = None

    def target(self) -> str:
        kept = TensorFlowCluster
        if kept._server is None:  # one for all tests: a server cannot be ended
            config = self.ops.ConfigProto(device_count={"CPU": 3})
            kept._server = self.tensorflow.distribute.Server.create_local_server(config)
        found: str = kept._server.target
        return found


class Prepared(OnTensorFlow):
    """With our own executor, which logs what nodes do, in the place of the profiler."""

    always_lost = frozenset({MEMORY_OF_THE_SYSTEM, "memory from before the run"})
    may_be_lost = OnTensorFlow.may_be_lost | {MEMORY_OF_KERNELS}  # of Python's outputs, and eager

    def __init__(self) -> None:
        from stepscope.adapters.tensorflow import prepare
        from stepscope.adapters.tensorflow.node_log import build

        import_tensorflow()
        reason = prepare()
        if reason == build.NO_COMPILER:
            pytest.skip(reason)
        assert not reason
        super().__init__()

    def finish(self) -> None:
        from stepscope.adapters.tensorflow.node_log import build

        super().finish()
        build.turn_off()


class PreparedSession(Prepared, TensorFlowSession):
    """Sessions whose runs are logged."""

    key = "prepared tensorflow session"
    names_a_step_in_flight = True
    lost_of_times = frozenset()


class TensorFlowFunction(OnTensorFlow):
    """Concrete functions, run by `stepscope.run`."""

    name = "tensorflow function"
    python_op_at_deadline = "waited_for"
    stops_between_ops = False
    cause_after_a_stuck_op = "when the op ends"
    names_the_failing_op = False
    knows_sources = False  # pruning copies the graph, and the copy's lines are those of the pruning
    traces_without_options = True

    def __init__(self) -> None:
        super().__init__()
        self._before = self.tensorflow.config.optimizer.get_experimental_options()
        self.tensorflow.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})

    def interrupts(self, options: Mapping[str, Any], *, python: bool = True) -> bool:
        return not python  # what waits is cancelled, and Python inside a function is not

    def names_what_was_interrupted(self) -> bool:
        return True

    def start(self, build: Callable[[Any], Mapping[str, Any]], config: Any = None) -> Program:
        assert config is None, "a function has no configuration of its own"
        ops = Ops(self.ops)
        named: dict[str, Any] = {}

        def traced() -> list[Any]:
            named.update({name: ops.readable(value) for name, value in build(ops).items()})
            return []  # what is run is pruned from it

        wrapped = self.ops.wrap_function(traced, [])
        program = FunctionProgram(self.tensorflow, wrapped, ops, named)
        self._programs.append(program)
        return program

    def finish(self) -> None:
        super().finish()
        off = self._before.get("disable_meta_optimizer", False)
        self.tensorflow.config.optimizer.set_experimental_options({"disable_meta_optimizer": off})


class PreparedFunction(Prepared, TensorFlowFunction):
    """Functions whose calls are logged."""

    key = "prepared tensorflow function"


class FunctionProgram(Program):
    """A wrapped program, pruned to a concrete function for each kind of run."""

    def __init__(self, tensorflow: Any, wrapped: Any, ops: Ops, named: Mapping[str, Any]) -> None:
        super().__init__(named)
        self._tensorflow = tensorflow
        self._wrapped = wrapped
        self._ops = ops
        self._pruned: dict[Any, Any] = {}
        self._outputs: set[str] = set()
        self._lock = threading.Lock()

    def _values(
        self, names: tuple[str, ...], feeds: Mapping[str, Any], options: Any, metadata: Any
    ) -> list[Any]:
        wanted = [self.named[name] for name in names]
        self._outputs |= {value.op.name for value in wanted if hasattr(value, "op")}
        with self._lock:
            function = self._pruned.get((names, tuple(feeds)))
            if function is None:
                function = self._wrapped.prune([self.named[name] for name in feeds], wanted)
                self._pruned[names, tuple(feeds)] = function
        values = [
            self._tensorflow.constant(value, self.named[name].dtype)
            for name, value in feeds.items()
        ]
        found = stepscope.run(function, *values, options=options, run_metadata=metadata)
        return [None if value is None else value.numpy() for value in found]

    def _node(self, name: str) -> str:
        """The program's name of a node: where a function's output has it, the node has a number."""
        base, _, number = name.rpartition("_")
        return base if number.isdigit() and base in self._outputs else name

    def rows(self, metadata: RunMetadata) -> dict[str, int]:
        return {self._node(name): row for row, name in enumerate(metadata.ops.name)}

    def outcomes(self, metadata: RunMetadata) -> dict[str, Any]:
        return {self._node(found.name): found for found in metadata.status.outcomes}


class TensorFlowEager(OnTensorFlow):
    """The same programs op by op, inside `stepscope.run`."""

    name = "tensorflow eager"
    gaps = {
        "op by op, a loop is one op, and there is no graph to differentiate": {
            "test_a_step_that_fails_is_named_with_those_before_it",
            "test_a_step_that_is_out_of_time_is_named",
            "test_every_step_has_its_row",
            "test_values_and_gradients",
        }
    }
    always_lost = OnTensorFlow.always_lost | {KERNEL_TIMES}
    may_be_lost = OnTensorFlow.may_be_lost - {KERNEL_TIMES}
    python_op_at_deadline = "waited_for"
    parallel = False
    names_the_failing_op = False
    counts_losses = False
    knows_sources = False
    has_partitions = False
    traces_without_options = True

    def interrupts(self, options: Mapping[str, Any], *, python: bool = True) -> bool:
        return python

    def raised(self, error: BaseException, kind: str) -> type[BaseException]:
        return type(error)

    def start(self, build: Callable[[Any], Mapping[str, Any]], config: Any = None) -> Program:
        assert config is None, "eager code has no configuration of its own"
        ops = Ops(self.ops)
        with self.tensorflow.Graph().as_default() as graph:
            named = {name: ops.readable(value) for name, value in build(ops).items()}
        program = EagerProgram(self.tensorflow, graph, ops, named)
        self._programs.append(program)
        return program


class EagerProgram(Program):
    """A program whose ops are called one after the other, each as eager code would call it."""

    def __init__(self, tensorflow: Any, graph: Any, ops: Ops, named: Mapping[str, Any]) -> None:
        super().__init__(named)
        self._tensorflow = tensorflow
        self._ops = ops
        self._began: dict[int, list[Any]] = {}
        self._last: list[Any] = []
        self._made: dict[str, Any] = {}
        for op in graph.get_operations():
            if op.type in _MADE_ONCE:
                self._made[op.name] = self._call(op, {})
        for variable in ops.kept:
            if hasattr(variable, "initializer"):
                self._execute(self._order([variable.initializer]), {}, [])

    def _values(
        self, names: tuple[str, ...], feeds: Mapping[str, Any], options: Any, metadata: Any
    ) -> list[Any]:
        wanted = [self.named[name] for name in names]
        order = self._order([getattr(value, "op", value) for value in wanted])
        fed = {
            self.named[name].op.name: self._tensorflow.constant(value, self.named[name].dtype)
            for name, value in feeds.items()
        }
        began: list[Any] = []
        self._began[id(metadata)] = self._last = began
        values = stepscope.run(
            lambda: self._execute(order, fed, began), options=options, run_metadata=metadata
        )
        return [
            values[value.op.name][value.value_index].numpy() if hasattr(value, "op") else None
            for value in wanted
        ]

    def rows(self, metadata: RunMetadata) -> dict[str, int]:
        shown: dict[str, list[int]] = defaultdict(list)
        for row, kind in enumerate(metadata.ops.op):
            shown[kind].append(row)
        ran: dict[str, list[str]] = defaultdict(list)
        for op in self._began.get(id(metadata), self._last):
            ran[op.type].append(op.name)
        return {
            name: row
            for kind, names in ran.items()
            for name, row in zip(names, shown.get(kind, ()), strict=False)
        }

    def outcomes(self, metadata: RunMetadata) -> dict[str, Any]:
        found = {}
        for outcome in metadata.status.outcomes:
            last = self._began.get(id(metadata), self._last)[-1]
            called = getattr(self._ops.python.get(last.name), "__name__", last.type)
            found[last.name if outcome.name in (last.type, called) else outcome.name] = outcome
        return found

    def _order(self, wanted: Sequence[Any]) -> list[Any]:
        """The ops that these need, inputs first, in the order the program made them."""
        needed, stack = {}, list(wanted)
        while stack:
            op = stack.pop()
            if op.name not in needed:
                needed[op.name] = op
                stack += [t.op for t in op.inputs] + list(op.control_inputs)
        return [op for op in wanted[0].graph.get_operations() if op.name in needed]

    def _execute(self, order: Sequence[Any], fed: Mapping[str, Any], began: list[Any]) -> Any:
        values: dict[str, Any] = {name: [value] for name, value in fed.items()}
        values.update(self._made)
        for op in order:
            if op.name not in values:
                began.append(op)
                values[op.name] = self._call(op, values)
        return values

    def _call(self, op: Any, values: Mapping[str, Any]) -> list[Any]:
        tf = self._tensorflow
        if op.type == "Const":
            return [tf.constant(tf.make_ndarray(op.get_attr("value")))]
        if op.type == "NoOp":
            return []
        inputs = [values[t.op.name][t.value_index] for t in op.inputs]
        if op.type == "PyFunc":
            (kind,) = [t.dtype for t in op.outputs]
            found = tf.compat.v1.py_func(self._ops.python[op.name], inputs, kind)
            return [tf.convert_to_tensor(found)]
        found = self._raw(op, inputs)
        if found is None or isinstance(found, tf.Operation):
            return []
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def _raw(self, op: Any, inputs: list[Any]) -> Any:
        function = getattr(self._tensorflow.raw_ops, op.type)
        given: dict[str, Any] = {}
        waiting = list(inputs)
        for argument in op.op_def.input_arg:
            if argument.number_attr or argument.type_list_attr:
                count = (
                    op.get_attr(argument.number_attr)
                    if argument.number_attr
                    else len(op.get_attr(argument.type_list_attr))
                )
                given[argument.name] = [waiting.pop(0) for _ in range(count)]
            else:
                given[argument.name] = waiting.pop(0)
        known = {attr.name for attr in op.op_def.attr}
        for name in inspect.signature(function).parameters:
            if name in known:
                given[name] = op.get_attr(name)
        return function(**given)


TENSORFLOW_ENGINES = (
    TensorFlowSession, PreparedSession, TensorFlowFunction, PreparedFunction, TensorFlowEager,
    TensorFlowCluster,
)  # fmt: skip
ENGINES = {
    kind.key or kind.name: kind
    for kind in (
        EmbeddedEngine,
        *(TENSORFLOW_ENGINES if importlib.util.find_spec("tensorflow") else ()),
    )
}
"""Every engine there is, by its key, or its name."""
