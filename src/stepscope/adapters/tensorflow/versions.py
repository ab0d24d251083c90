"""Everything we take from TensorFlow's inside, and where its versions differ: this file alone.

Written for 2.15 to 2.21. Each function says what it needs and gives None, or an error that names
what is missing, where a version has it no more.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TRACE_LEVEL_SYMBOL = "_ZN3tsl8profiler8internal13g_trace_levelE"


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


_active_manager = threading.local()
_patch_lock = threading.Lock()
_patched = False


def _patch_cancellation() -> None:
    """Make TensorFlow's cancellation context one of the thread, not of the whole process."""
    global _patched
    from tensorflow.python.eager import cancellation

    with _patch_lock:
        if _patched:
            return
        original = cancellation.context

        def context() -> Any:
            mine = getattr(_active_manager, "manager", None)
            return mine if mine is not None else original()

        cancellation.context = context
        _patched = True


@contextmanager
def cancellable() -> Iterator[Any]:
    """Function calls of this thread inside the block end when `start_cancel()` is called."""
    from tensorflow.python.eager import cancellation

    _patch_cancellation()
    manager = cancellation.CancellationManager()
    previous = getattr(_active_manager, "manager", None)
    _active_manager.manager = manager
    try:
        yield manager
    finally:
        _active_manager.manager = previous


@contextmanager
def function_options(tag: str) -> Iterator[None]:
    """Call functions inside under a tag of ours, so that they are instantiated anew once."""
    from tensorflow.python.eager import context as eager_context

    context = eager_context.context()
    previous = context.function_call_options
    config = context.config
    config.allow_soft_placement = True
    config.experimental.session_metadata.name = tag
    context.function_call_options = eager_context.FunctionCallOptions(
        executor_type=previous.executor_type, config_proto=config
    )
    try:
        yield
    finally:
        context.function_call_options = previous


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


def is_function(value: Any) -> bool:
    """Whether calling this runs one TensorFlow function (a tf.function or a concrete one)."""
    return hasattr(value, "get_concrete_function") or is_concrete_function(value)


def is_concrete_function(value: Any) -> bool:
    return hasattr(value, "structured_input_signature") and hasattr(value, "graph")


def sync_eager() -> None:
    """Wait until eager ops that run on their own threads are done."""
    from tensorflow.python.eager import context as eager_context

    eager_context.context().sync_executors()


_python_functions_wrapped = False


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


@contextmanager
def op_callback(callback: Any) -> Iterator[None]:
    """Call back with type and outputs of each eager op of this thread."""
    from tensorflow.python.framework import op_callbacks

    def only_eager(
        op_type: Any, _inputs: Any, _attrs: Any, outputs: Any, op_name: Any = None,
        graph: Any = None,
    ) -> None:  # fmt: skip
        del op_name
        if graph is None:
            name = op_type.decode() if isinstance(op_type, bytes) else op_type
            callback(name, outputs)

    op_callbacks.add_op_callback(only_eager)
    try:
        yield
    finally:
        op_callbacks.remove_op_callback(only_eager)
