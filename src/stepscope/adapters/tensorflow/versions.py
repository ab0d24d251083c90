"""What we take from TensorFlow's inside, and where its versions differ.

Others that do are `function_building`, `runs.cancelling` and `capture.op_calls`.

Written for 2.15 to 2.21. Each function says what it needs and gives None, or an error that names
what is missing, where a version has it no more.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from stepscope.cached_property import cached_property

_TRACE_LEVEL_SYMBOL: Final = "_ZN3tsl8profiler8internal13g_trace_levelE"


def tensorflow() -> Any:
    """The tensorflow module, imported on first use."""
    import tensorflow

    return tensorflow


def new_profiler_session() -> Any:
    """A profiler session with start(path, options) and export_to_tb()."""
    from tensorflow.python.profiler.internal import _pywrap_profiler

    return _pywrap_profiler.ProfilerSession()


def trace_me(name: str, **stats: Any) -> Any:
    """A context manager that puts a span of that name, with these stats, into the profile."""
    from tensorflow.python.profiler import trace

    return trace.Trace(name, **stats)


class TraceLevel:
    """The recorder's level, a global of TensorFlow's library; `available` is False if not found."""

    def __init__(self) -> None:
        self._value: Any = None
        folder = Path(tensorflow().__file__).parent
        for name in ("libtensorflow_framework.so.2", "libtensorflow_framework.2.dylib"):
            try:
                library = ctypes.CDLL(str(folder / name))
                self._value = ctypes.c_int.in_dll(library, _TRACE_LEVEL_SYMBOL)
            except (OSError, ValueError):
                continue
            break

    @property
    def available(self) -> bool:
        return self._value is not None

    def raise_to(self, level: int) -> bool:
        """Record events up to that level; False if the recorder is not recording."""
        if self._value is None or self._value.value < 0:
            return False
        self._value.value = level
        return True


_patch_lock = threading.Lock()


@contextmanager
def function_options(tag: str) -> Iterator[None]:
    """Call functions inside under a tag of ours, so that they are instantiated anew once."""
    from tensorflow.python.eager import context as eager_context

    context = eager_context.context()
    previous = context.function_call_options
    # What the program has set (soft placement, optimizers) holds for our instance, too.
    config = tensorflow().compat.v1.ConfigProto.FromString(previous.config_proto_serialized)
    config.experimental.session_metadata.name = tag
    context.function_call_options = eager_context.FunctionCallOptions(
        executor_type=previous.executor_type, config_proto=config
    )
    tagged, _calls_here.tag = _calls_here.tag, tag
    try:
        yield
    finally:
        _calls_here.tag = tagged
        context.function_call_options = previous


class FirstCall(NamedTuple):
    """A call of a function that was the first under the options it was made with."""

    function: str
    began_ns: int
    """By the wall clock, as the times of ops are."""
    ended_ns: int


class _CallsHere(threading.local):
    """How this thread calls functions."""

    tag = ""
    traced = False
    first: list[FirstCall] | None = None
    """Where first calls are noted, if they are."""
    before: Callable[[], None] | None = None
    """What is to be done before a function is called, while its options are not looked at yet."""


_calls_here = _CallsHere()
_called: set[tuple[str, str, str]] = set()
"""The functions that were called, each with the tag and the executor type it was called under."""
_function_executor = ""
_executes_all = False
_function_calls_wrapped = False
_staying: RegisteredFunctions | None = None
"""The functions that are executed as TensorFlow does it, though others are not."""


def execute_functions_by(
    executor_type: str, *, untraced: bool = True, new_functions_only: bool = False
) -> None:
    """Have functions that are called from now on executed by that type; "" for TensorFlow's.

    All of them or, without `untraced`, those called in a traced run: TensorFlow instantiates a
    function once per type, and untraced calls are not to wait for that. The type stands in the call
    alone. In the graphs that are traced, and in what is saved of them, it does not: others may not
    know it. Nor do the servers of a cluster. With `new_functions_only`, functions that were traced
    before now are left as they are.
    """
    global _function_executor, _executes_all, _staying
    with _patch_lock:
        _staying = registered_functions() if new_functions_only else None
        _function_executor, _executes_all = executor_type, untraced
    if executor_type:
        _wrap_function_calls()


class first_calls:  # noqa: N801 - a context manager, entered by every traced run
    """Note the calls of functions that are the first under their options: they instantiate them.

    With `traced`, functions inside are executed by the type for traced runs. `before` is called
    before each of them, and may change the options they are called under.
    """

    __slots__ = ("_before", "_found", "_previous", "_traced")

    def __init__(
        self, found: list[FirstCall], *, traced: bool, before: Callable[[], None] | None = None
    ) -> None:
        self._found, self._traced, self._before = found, traced, before

    def __enter__(self) -> None:
        if not _function_calls_wrapped:
            _wrap_function_calls()
        here = _calls_here
        self._previous = here.traced, here.first, here.before
        here.traced, here.first = self._traced, self._found
        if self._before is not None:
            here.before = self._before

    def __exit__(self, *_exc: object) -> None:
        here = _calls_here
        here.traced, here.first, here.before = self._previous


_LOOKED_AT_MOST: Final = 1000


def _undisturbed(look: Callable[[], Any]) -> Any:
    """What a look into a dictionary of TensorFlow's gives.

    Python refuses one in the midst of which another thread, which traces a function, adds to the
    dictionary. It is looked into anew then.
    """
    for _ in range(_LOOKED_AT_MOST):
        with suppress(RuntimeError):
            return look()
    return look()


class RegisteredFunctions:
    """Functions that TensorFlow could call at some moment: those that were traced by then."""

    def __init__(self, known: dict[Any, Any]) -> None:
        self._keys = frozenset(known)
        self.newest = _newest_in(known)
        """Changes when a function is traced."""

    @cached_property
    def _names(self) -> frozenset[str]:
        names = (key[-1] if isinstance(key, tuple) else key for key in self._keys)
        return frozenset(map(_text, names))

    def __contains__(self, name: str) -> bool:
        return name in self._names


def _newest_in(known: dict[Any, Any]) -> tuple[int, Any]:
    """How many functions are known, and the last that came."""
    return len(known), _undisturbed(lambda: next(reversed(known), None))


_registered: RegisteredFunctions | None = None


def registered_functions() -> RegisteredFunctions:
    """Those of this moment: the same object as long as they are the same."""
    global _registered
    known = _runtime_functions()
    found = _registered
    if found is None or found.newest != _newest_in(known):
        found = _registered = RegisteredFunctions(known)
    return found


@functools.cache
def _runtime_functions() -> dict[Any, Any]:
    """TensorFlow's own register of the functions it can call."""
    from tensorflow.python.eager.polymorphic_function import atomic_function

    return getattr(atomic_function, "RUNTIME_FUNCTION_REFS", {})


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def _wrap_function_calls() -> None:
    global _function_calls_wrapped
    from tensorflow.python.eager import context as eager_context

    with _patch_lock:
        if _function_calls_wrapped:
            return
        original = eager_context.Context.call_function

        @functools.wraps(original)
        def call_function(context: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
            here = _calls_here
            if here.before is not None:
                here.before()
            kind = _function_executor if _executes_all or here.traced else ""
            if kind and (not _takes_executor(context) or (_staying and _text(name) in _staying)):
                kind = ""
            if not kind and here.first is None:
                return original(context, name, *args, **kwargs)
            called = _text(name), here.tag, kind
            first = here.first if called not in _called else None
            _called.add(called)
            options = context.function_call_options  # of this thread alone
            previous = options.executor_type
            if kind:
                options.executor_type = kind
            began = time.time_ns() if first is not None else 0
            try:
                return original(context, name, *args, **kwargs)
            finally:
                if kind:
                    options.executor_type = previous
                if first is not None:
                    first.append(FirstCall(called[0], began, time.time_ns()))

        eager_context.Context.call_function = call_function
        _function_calls_wrapped = True


def executes_functions_here_by(executor_type: str) -> bool:
    """Whether a function that a traced run of this thread calls now is executed by that type."""
    if not executor_type or executor_type != _function_executor:
        return False
    context = _eager_context().context()
    return _takes_executor(context) and not context.is_async()


@functools.cache
def _eager_context() -> Any:
    from tensorflow.python.eager import context

    return context


def _traces_of(function: Any) -> list[Any]:
    """What a `tf.function` was traced to so far; none of anything else.

    TensorFlow lists a dictionary whose keys are hashed by Python: time enough for another thread to
    trace the function anew.
    """
    return list(_undisturbed(getattr(function, "_list_all_concrete_functions", list)))


def stays_as_it_is(function: Any) -> bool:
    """Whether a function is one of those that no other type than TensorFlow's executes."""
    if _staying is None:
        return False
    traces = [function] if is_concrete_function(function) else _traces_of(function)
    return any(_text(trace.function_def.signature.name) in _staying for trace in traces)


def _takes_executor(context: Any) -> bool:
    """Whether functions are executed in this process, by no type that the program chose itself."""
    return not context.function_call_options.executor_type and context._server_def is None


@contextmanager
def collecting_graphs(found: list[Any]) -> Iterator[None]:
    """Append the RunMetadata message with the graphs of functions instantiated inside."""
    from tensorflow.python.eager import context as eager_context

    context = eager_context.context()
    context.ensure_initialized()
    context.enable_run_metadata()
    try:
        yield
    finally:
        try:
            found.append(context.export_run_metadata())
        finally:
            context.disable_run_metadata()
            if summary_trace(summary_module()) is not None:
                # The program goes on collecting.
                context.enable_graph_collection()


def is_function(value: Any) -> bool:
    """Whether calling this runs one TensorFlow function (a tf.function or a concrete one)."""
    return hasattr(value, "get_concrete_function") or is_concrete_function(value)


_traces: weakref.WeakKeyDictionary[Any, tuple[Any, list[Any]]] = weakref.WeakKeyDictionary()
"""By function, weak references to the graphs it was traced to, when these functions were known."""


def traced_graphs(function: Any) -> list[Any]:
    """The graphs that a `tf.function` was traced to so far; none of anything else."""
    if getattr(function, "_list_all_concrete_functions", None) is None:
        return []
    # TensorFlow takes long to list them: they are the same as long as nothing was traced.
    known = registered_functions()
    when, found = _traces.get(function, (None, []))
    graphs = [graph() for graph in found]
    if when is not known or None in graphs:
        graphs = [trace.graph for trace in _traces_of(function)]
        _traces[function] = known, [weakref.ref(graph) for graph in graphs]
    return graphs


def function_interface(function: Any) -> dict[str, str]:
    """By the name of each argument and result of a function, the op of its graph that it is."""
    traces = [function] if is_concrete_function(function) else _traces_of(function)
    found: dict[str, str] = {}
    for trace in traces:
        signature, graph = trace.function_def.signature, trace.graph
        for names, tensors in (
            (signature.input_arg, graph.inputs), (signature.output_arg, graph.outputs)
        ):  # fmt: skip
            for argument, tensor in zip(names, tensors, strict=False):
                found.setdefault(argument.name, tensor.op.name)
    return found


def functions_called_by(op: Any) -> list[tuple[str, str]]:
    """The functions that an op of a graph runs: (which part of it, name).

    The part is "" for a call, else the attribute: `body`, `then_branch`, `branch0`.
    """
    if op.type in ("PartitionedCall", "StatefulPartitionedCall"):
        return [("", op.get_attr("f").name)]
    if op.type in ("While", "StatelessWhile", "If", "StatelessIf"):
        parts = ("cond", "body") if "While" in op.type else ("then_branch", "else_branch")
        return [(part, op.get_attr(part).name) for part in parts]
    if op.type in ("Case", "StatelessCase"):
        return [(f"branch{i}", found.name) for i, found in enumerate(op.get_attr("branches"))]
    return []


class FunctionFrames(NamedTuple):
    """What TensorFlow knows of a function that it can call: where its nodes were made."""

    frames: dict[str, list[tuple[str, int]]]
    """By node, the files and lines that made it, innermost first."""
    calls: list[tuple[str, str, str]]
    """The functions that its nodes call: the node, which part of it (see `functions_called_by`),
    the function."""
    interface: dict[str, str]
    """By argument and result, the node that it is."""


def function_frames(name: str) -> FunctionFrames | None:
    """Of the function by this name; None where there is none, or no version tells of it."""
    from tensorflow.python.eager import context as eager_context

    context = eager_context.context()
    if not hasattr(context, "get_graph_debug_info") or not context.has_function(name):
        return None
    info = context.get_graph_debug_info(name)
    definition = context.get_function_def(name)
    files = info.files
    known = {
        number: (files[frame.file_index], frame.line) for number, frame in info.frames_by_id.items()
    }
    traces = {
        number: [known[frame] for frame in reversed(trace.frame_id)]
        for number, trace in info.traces_by_id.items()
    }
    frames = {node: traces[number] for node, number in info.name_to_trace_id.items()}
    interface = {arg.name: arg.name for arg in definition.signature.input_arg}
    interface |= {result: value.partition(":")[0] for result, value in definition.ret.items()}
    calls = [
        (node.name, part, called)
        for node in definition.node_def
        for part, called in _functions_of(node.op, node.attr)
    ]
    return FunctionFrames(frames, calls, interface)


def _functions_of(op: str, attrs: Any) -> list[tuple[str, str]]:
    """As `functions_called_by`, of a node in a function's definition."""
    if op in ("PartitionedCall", "StatefulPartitionedCall"):
        return [("", attrs["f"].func.name)]
    parts = ("cond", "body") if "While" in op else ("then_branch", "else_branch")
    if op in ("While", "StatelessWhile", "If", "StatelessIf"):
        return [(part, attrs[part].func.name) for part in parts]
    if op in ("Case", "StatelessCase"):
        return [(f"branch{i}", f.name) for i, f in enumerate(attrs["branches"].list.func)]
    return []


def is_concrete_function(value: Any) -> bool:
    return hasattr(value, "structured_input_signature") and hasattr(value, "graph")


def is_compiled(function: Any) -> bool:
    """Whether XLA compiles it as a whole (`jit_compile=True`), so that no executor sees its ops."""
    if not is_concrete_function(function):
        return bool(getattr(function, "_jit_compile", None))
    return bool(function.function_def.attr["_XlaMustCompile"].b)


def function_nodes(name: str) -> list[Any]:
    """The nodes of a function that can be called by this name, and of those it calls."""
    from tensorflow.python.eager import context as eager_context

    context = eager_context.context()
    nodes: list[Any] = []
    waiting, seen = [name], {name}
    while waiting:
        called = waiting.pop()
        if not context.has_function(called):
            continue
        for node in context.get_function_def(called).node_def:
            nodes.append(node)
            for attr in node.attr.values():
                inner = [attr.func.name, *(func.name for func in attr.list.func)]
                waiting += [other for other in inner if other and other not in seen]
                seen.update(inner)
    return nodes


def sync_eager() -> None:
    """Wait until eager ops that run on their own threads are done."""
    from tensorflow.python.eager import context as eager_context

    eager_context.context().sync_executors()


_python_functions_wrapped = False


@functools.cache
def wrap_eager_python_functions(span_of: Any) -> None:
    """Call eager `numpy_function`s inside `span_of(function)`, where that gives a span.

    The span gives a function, which is called with what came out.
    """
    global _python_functions_wrapped
    from tensorflow.python.eager import context as eager_context
    from tensorflow.python.ops import script_ops

    with _patch_lock:
        if _python_functions_wrapped:
            return
        original = script_ops.py_func_common

        def py_func_common(func: Any, *args: Any, **kwargs: Any) -> Any:
            span = span_of(func) if eager_context.executing_eagerly() else None
            if span is None:
                return original(func, *args, **kwargs)
            with span as note:
                found = original(func, *args, **kwargs)
                note(found)
            return found

        script_ops.py_func_common = py_func_common
        _python_functions_wrapped = True


class PythonCallLog:
    """The Python functions that ops of graphs are inside of, on all threads.

    Calls are numbered in the order in which they begin; only those that begin after `start` are
    seen.
    """

    def __init__(self) -> None:
        self._started = False
        self._numbers = itertools.count()
        self._inside: dict[int, str] = {}

    def start(self) -> int:
        """See calls from now on; gives a number below those that are still to come."""
        from tensorflow.python.ops import script_ops

        with _patch_lock:
            if not self._started:
                self._started = True
                registry = script_ops.FuncRegistry
                registry.__call__ = self._noting(registry.__call__)
        return next(self._numbers)

    def since(self, number: int) -> set[str]:
        """The tokens of the calls under way that began after that: nodes name functions by them."""
        return {token for begun, token in self._inside.copy().items() if begun > number}

    def _noting(self, original: Any) -> Any:
        @functools.wraps(original)
        def call(registry: Any, token: Any, device: Any, args: Any) -> Any:
            number = next(self._numbers)
            self._inside[number] = str(token)
            try:
                return original(registry, token, device, args)
            finally:
                del self._inside[number]

        return call


python_calls: Final = PythonCallLog()


def op_calls() -> list[tuple[Any, str]]:
    """Where Python's ways into TensorFlow are, with their names.

    The fast one for eager ops, the slow one for ops and functions, that of those which can be
    cancelled; a session's own, and that of what `make_callable` gave.
    """
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.client import session

    return [
        (pywrap_tfe, "TFE_Py_FastPathExecute"),
        (pywrap_tfe, "TFE_Py_Execute"),
        (pywrap_tfe, "TFE_Py_ExecuteCancelable"),
        (session.BaseSession, "_call_tf_sessionrun"),
        (session.BaseSession._Callable, "__call__"),
    ]


@functools.cache
def fallback_error() -> Any:
    """What the fast way of calling an op raises where the slow one has to be taken."""
    from tensorflow.python.eager import core

    return core._FallbackException


def eagerly() -> AbstractContextManager[None]:
    """While inside, this thread calls ops eagerly, whatever the program has switched off."""
    from tensorflow.python.eager import context

    found: AbstractContextManager[None] = context.eager_mode()
    return found


@functools.cache
def eager_tensor_class() -> Any:
    """The class of what eager ops put out."""
    from tensorflow.python.framework import ops

    return ops.EagerTensor


@functools.cache
def numbers_in_memory() -> frozenset[int]:
    """The types of tensors whose values lie in this machine's memory; none with accelerators.

    There, to look at a tensor may be to copy it.
    """
    tf = tensorflow()
    if any(device.device_type != "CPU" for device in tf.config.list_physical_devices()):
        return frozenset()
    kinds = (
        tf.bool, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64,
        tf.bfloat16, tf.float16, tf.float32, tf.float64, tf.complex64, tf.complex128,
    )  # fmt: skip
    return frozenset(kind.as_datatype_enum for kind in kinds)


def address_of(tensor: Any) -> int:
    """Where the values of an eager tensor of such a type are."""
    return int(tensor._numpy_internal().__array_interface__["data"][0])


@functools.cache
def dtype_size(number: int) -> int:
    """The bytes of one value of that type; 0 where there is no such size."""
    from tensorflow.python.framework import dtypes

    return int(dtypes.as_dtype(number).size or 0)


def lines_of_stack() -> list[tuple[str, int]]:
    """The files and lines that this thread is in, innermost first, as their authors wrote them.

    AutoGraph executes code of its own in their place.
    """
    from tensorflow.python.util import tf_stack

    return [(frame.filename, frame.lineno) for frame in reversed(tf_stack.extract_stack())]


# -- what is replaced while a script is recorded -----------------------------------------------


def default_config() -> Any:
    """The ConfigProto of sessions that are given none."""
    from tensorflow.python.eager import context

    return context.context().config


def session_class() -> Any:
    """The class whose `run`, `make_callable` and `_Callable` all sessions use."""
    from tensorflow.python.client import session

    return session.BaseSession


def server_class() -> Any:
    """The class of servers, in whose `join` a worker or parameter server waits."""
    from tensorflow.python.training import server_lib

    return server_lib.Server


def function_classes() -> tuple[Any, Any]:
    """The classes of a `tf.function` and of a concrete function."""
    from tensorflow.python.eager.polymorphic_function import (
        concrete_function,
        polymorphic_function,
    )

    return polymorphic_function.Function, concrete_function.ConcreteFunction


def iterator_class() -> Any:
    """The class whose `_next_internal` gives eager code the elements of a dataset; None without."""
    try:
        from tensorflow.python.data.ops import iterator_ops
    except ImportError:
        return None
    kind = getattr(iterator_ops, "OwnedIterator", None)
    return kind if hasattr(kind, "_next_internal") else None


def dataset_class() -> Any:
    """The class of all datasets of tf.data, with `_inputs` and `_functions`; None without."""
    try:
        from tensorflow.python.data.ops import dataset_ops
    except ImportError:
        return None
    kind = getattr(dataset_ops, "DatasetV2", None)
    return kind if hasattr(kind, "_inputs") and hasattr(kind, "_functions") else None


def iterating_in_graphs() -> list[tuple[Any, str, str]]:
    """Methods of datasets after which a graph takes their elements: class, name, and what graph."""
    try:
        from tensorflow.python.data.ops import dataset_ops
    except ImportError:
        return []
    found = [
        (getattr(dataset_ops, "DatasetV1", None), "_make_one_shot_iterator", "session"),
        (getattr(dataset_ops, "DatasetV1", None), "_make_initializable_iterator", "session"),
        (getattr(dataset_ops, "DatasetV2", None), "reduce", "function"),
    ]
    return [(kind, name, what) for kind, name, what in found if hasattr(kind, name)]


def iterator_model(resource: Any) -> bytes:
    """What tf.data counts of the stages of an iterator: its model, which `model_nodes` reads.

    TensorFlow keeps it to tune pipelines, and asking takes some 6 us. An error where it does not:
    tuning is off for this dataset, or this version has no such op.
    """
    found: bytes = tensorflow().raw_ops.IteratorGetModelProto(iterator=resource).numpy()
    return found


class ModelNode(NamedTuple):
    """A stage of a running pipeline: counts since the iterator was made."""

    id: int
    name: str
    inputs: tuple[int, ...]
    elements: int
    own_ns: int
    buffered: int
    bytes: int
    parallelism: int
    buffer: int
    tuned: bool
    ratio: float
    """How many elements of its input make one of its own; 0 where that differs."""


def model_nodes(model: bytes) -> list[ModelNode]:
    """The stages in a model of an iterator, the last of the pipeline first."""
    from tensorflow.core.framework import model_pb2

    message = model_pb2.ModelProto.FromString(model)
    found, waiting = [], [message.output]
    while waiting:
        number = waiting.pop()
        if number not in message.nodes:
            continue
        node = message.nodes[number]
        values = {parameter.name: parameter for parameter in node.parameters}
        # An iterator that is made anew for each element of another one is an input as well.
        inputs = tuple(sorted(node.inputs))
        waiting += reversed(inputs)
        found.append(
            ModelNode(
                number,
                node.name,
                inputs,
                node.num_elements,
                node.processing_time,
                node.buffered_elements,
                node.bytes_produced,
                round(values["parallelism"].state_value) if "parallelism" in values else 0,
                round(values["buffer_size"].state_value) if "buffer_size" in values else 0,
                any(parameter.tunable for parameter in node.parameters),
                float(node.ratio),
            )
        )
    return found


def eager_context_class() -> Any:
    """The class of the eager context, with `ensure_initialized`."""
    from tensorflow.python.eager import context

    return context.Context


def summary_module() -> Any:
    """The module behind `tf.summary.trace_on`, by whose names `trace_export` writes."""
    from tensorflow.python.ops import summary_ops_v2

    return summary_ops_v2


def summary_trace(module: Any) -> Any:
    """The trace that `tf.summary.trace_on` began in that module; None where none is on."""
    return module._current_trace_context


def profiler_module() -> Any:
    """The module behind `tf.profiler.experimental`; its `_pywrap_profiler` has the sessions."""
    from tensorflow.python.profiler import profiler_v2

    return profiler_v2


def hide_frames(files: frozenset[str]) -> None:
    """Keep these files out of the lines that TensorFlow shows with an op's error."""
    from tensorflow.python.util import tf_stack

    class Filter(tf_stack.StackTraceFilter):  # type: ignore[misc]
        def get_filtered_filenames(self) -> frozenset[str]:
            return files

    Filter().__enter__()


def op_def(op_type: str) -> Any:
    """The OpDef of an op type; None where TensorFlow has none of that name."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(op_type)


def register_python_function(function: Any) -> str:
    """The token under which a node `PyFunc` calls a function, for as long as somebody holds it."""
    from tensorflow.python.ops import script_ops

    token: str = script_ops._py_funcs.insert(function)
    return token
