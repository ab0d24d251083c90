"""Making TensorFlow tell a `ScriptRecorder` of its runs, from the moment a script imports it.

What is replaced, once TensorFlow is loaded: `BaseSession.run` and session callables, the call of
functions, building their graphs, entering and leaving gradient tapes, taking elements of datasets,
the first initialization of the eager context, the profiler session that `tf.profiler` uses,
`Server.join`, what `tf.summary.trace_export` writes with, and `Thread.start`. Nothing of it is put
back: the process is the script's.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture.capture import clock
from stepscope.adapters.tensorflow.script.importing import TensorFlowFinder
from stepscope.adapters.tensorflow.script.names import function_name
from stepscope.adapters.tensorflow.script.pipelines import (
    IN_FUNCTION,
    IN_SESSION,
    ScriptPipelines,
)
from stepscope.adapters.tensorflow.script.recorder import ScriptRecorder
from stepscope.adapters.tensorflow.support import FUNCTION, SESSION
from stepscope.own_code import files_of


def watch(recorder: Any, loaded: Callable[[], None]) -> None:
    """Have a recorder told of runs, from when TensorFlow is loaded on; it is told of that, too.

    It may come and go: what stands for it has its attributes. Of what is done for a whole script
    (`importing.install`), names of TensorFlow 1, servers and input pipelines are left as they are.
    """

    def put_in_place() -> None:
        _patch_sessions(recorder)
        _patch_functions(recorder)
        _patch_eager(recorder)
        _patch_profiler(recorder)
        versions.hide_frames(files_of(adapter))
        loaded()

    if "tensorflow" in sys.modules:
        put_in_place()
    else:
        sys.meta_path.insert(0, TensorFlowFinder(lambda: put_in_place))


# -- version 2 and sessions --------------------------------------------------------------------


def patch(recorder: ScriptRecorder) -> None:
    """TensorFlow is loaded: have it tell the recorder of runs."""
    _patch_options()
    _patch_sessions(recorder)
    _patch_functions(recorder)
    _patch_eager(recorder)
    _patch_iterators(recorder)
    _patch_profiler(recorder)
    _patch_servers(recorder)
    recorder.summary_traces.install(recorder.windows.read)
    versions.hide_frames(_files_around_script() | files_of(adapter))
    recorder.loaded()


def _patch_options() -> None:
    # Not before there is TensorFlow.
    from stepscope.adapters.tensorflow.script.reports import naming_ours

    v1 = versions.tensorflow().compat.v1
    v1.RunOptions = naming_ours(v1.RunOptions)


def _patch_sessions(recorder: ScriptRecorder) -> None:
    # Not before there is TensorFlow.
    from stepscope.adapters.tensorflow.runs.session import logging_config
    from stepscope.adapters.tensorflow.runs.session_shared import shared_by_runs_of
    from stepscope.adapters.tensorflow.script.reports import asks_nothing

    base = versions.session_class()
    native = base.run
    here = recorder.here

    @functools.wraps(native)
    def run(
        self: Any, fetches: Any, feed_dict: Any = None, options: Any = None,
        run_metadata: Any = None,
    ) -> Any:  # fmt: skip
        if here.depth or not recorder.active:
            return native(self, fetches, feed_dict, options, run_metadata)
        entered = clock()
        asks = options is not None and not asks_nothing(options)
        lane = None if asks else recorder.lane_of_fetches(fetches)
        if lane is not None and (began := lane.begins()):
            arguments = (self, fetches, feed_dict, options, run_metadata)
            return recorder.in_lull(lane, entered, began, SESSION, native, *arguments)
        return recorder.session_run(self, native, fetches, feed_dict, options, run_metadata)

    base.run = run
    native_init = base.__init__

    @functools.wraps(native_init)
    def init(self: Any, target: Any = "", graph: Any = None, config: Any = None) -> None:
        logged = logging_config(target, config) if recorder.logs_nodes else None
        native_init(self, target, graph, logged if logged is not None else config)
        if logged is not None:
            shared_by_runs_of(self, logged).logs_nodes = True

    base.__init__ = init
    _patch_callables(recorder, base)


def _patch_callables(recorder: ScriptRecorder, base: Any) -> None:
    here = recorder.here
    native_callable = base._Callable.__call__

    @functools.wraps(native_callable)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if here.depth or not recorder.active:
            return native_callable(self, *args, **kwargs)
        return recorder.session_callable(
            self._session, lambda: native_callable(self, *args, **kwargs)
        )

    base._Callable.__call__ = call
    native_make = base.make_callable

    @functools.wraps(native_make)
    def make_callable(
        self: Any, fetches: Any, feed_list: Any = None, accept_options: bool = False
    ) -> Any:
        made = native_make(self, fetches, feed_list, accept_options)

        @functools.wraps(made)
        def called(*args: Any, **kwargs: Any) -> Any:
            if here.depth or not recorder.active:
                return made(*args, **kwargs)
            return recorder.session_callable(self, lambda: made(*args, **kwargs))

        return called

    base.make_callable = make_callable


def _patch_functions(recorder: ScriptRecorder) -> None:
    here = recorder.here
    executing_eagerly = versions.tensorflow().executing_eagerly
    function, concrete = versions.function_classes()

    def patch(kind: Any, name_of: Callable[[Any], str], graph_of: Callable[[Any], Any]) -> None:
        native = kind.__call__

        @functools.wraps(native)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if here.depth or not recorder.active or not executing_eagerly():
                return native(self, *args, **kwargs)
            entered = clock()
            lane = recorder.lane_of(self, name_of)
            if lane is not None and (began := lane.begins()):
                if recorder.pipelines is not None:
                    recorder.elements_taken(args, lambda: name_of(self))
                return recorder.in_lull(
                    lane, entered, began, FUNCTION, native, self, *args, **kwargs
                )
            return recorder.function(
                self, lambda: name_of(self), lambda: graph_of(self),
                lambda: native(self, *args, **kwargs), args,
            )  # fmt: skip

        kind.__call__ = call

    patch(function, function_name, lambda _: None)
    patch(concrete, lambda f: str(f.graph.name), lambda f: f.graph)


def _patch_eager(recorder: ScriptRecorder) -> None:
    tape = versions.tensorflow().GradientTape
    enter, leave = tape.__enter__, tape.__exit__

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        try:
            if recorder.active:
                recorder.tape_entered()
            return enter(self)
        except BaseException:
            recorder.tape_left()
            raise

    @functools.wraps(leave)
    def left(self: Any, *exc: Any) -> Any:
        try:
            return leave(self, *exc)
        finally:
            recorder.tape_left()

    tape.__enter__, tape.__exit__ = entered, left
    kind = versions.eager_context_class()
    ensure_initialized = kind.ensure_initialized

    @functools.wraps(ensure_initialized)
    def first_time(self: Any) -> None:
        ensure_initialized(self)
        if kind.ensure_initialized is first_time:
            kind.ensure_initialized = ensure_initialized
            recorder.initialized()

    kind.ensure_initialized = first_time
    start = threading.Thread.start

    @functools.wraps(start)
    def started(self: threading.Thread) -> None:
        if recorder.active:
            recorder.thread_starts()
        start(self)

    threading.Thread.start = started  # type: ignore[method-assign]


def _patch_iterators(recorder: ScriptRecorder) -> None:
    kind = versions.iterator_class()
    if kind is None:
        return
    native = kind._next_internal
    here, main, clock = recorder.here, threading.main_thread().ident, time.perf_counter_ns

    @functools.wraps(native)
    def next_internal(self: Any) -> Any:
        if here.depth or threading.get_ident() != main:
            return native(self)
        began = clock()
        try:
            element = native(self)
        except BaseException:
            recorder.input_ns += clock() - began
            recorder.elements_taken((self,), str, ended=True)
            raise
        waited = clock() - began
        recorder.input_ns += waited
        recorder.elements_taken((self,), str, waited)
        return element

    kind._next_internal = next_internal
    _patch_datasets(recorder, kind)


def _patch_datasets(recorder: ScriptRecorder, iterator: Any) -> None:
    """Have datasets and the iterators over them noted as they are made."""
    dataset = versions.dataset_class()
    notes = recorder.pipelines
    if dataset is None or notes is None or not hasattr(iterator, "_create_iterator"):
        return
    native_init = dataset.__init__
    executing_eagerly = versions.tensorflow().executing_eagerly

    @functools.wraps(native_init)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        native_init(self, *args, **kwargs)
        if recorder.active:
            notes.dataset_made(self)

    dataset.__init__ = init
    native_create = iterator._create_iterator

    @functools.wraps(native_create)
    def create(self: Any, dataset: Any) -> Any:
        result = native_create(self, dataset)
        if recorder.active and executing_eagerly():
            notes.iterator_made(self, dataset)
        elif recorder.active:
            notes.iterated_in_graph(dataset, IN_FUNCTION)
        return result

    iterator._create_iterator = create
    _patch_iterating_in_graphs(recorder, notes, executing_eagerly)


def _patch_iterating_in_graphs(
    recorder: ScriptRecorder, notes: ScriptPipelines, executing_eagerly: Callable[[], bool]
) -> None:
    """Have datasets noted of which a session or a function takes the elements."""
    for kind, name, why in versions.iterating_in_graphs():
        problem = IN_SESSION if why == "session" else IN_FUNCTION
        native = getattr(kind, name)

        @functools.wraps(native)
        def iterated(
            self: Any, *args: Any, native: Any = native, problem: str = problem, **kwargs: Any
        ) -> Any:
            result = native(self, *args, **kwargs)
            if recorder.active and not executing_eagerly():
                notes.iterated_in_graph(self, problem)
            return result

        setattr(kind, name, iterated)


def _patch_servers(recorder: ScriptRecorder) -> None:
    kind = versions.server_class()
    native = kind.join

    @functools.wraps(native)
    def join(self: Any) -> Any:
        if not recorder.active:
            return native(self)
        return recorder.serve(lambda: native(self))

    kind.join = join


def _patch_profiler(recorder: ScriptRecorder) -> None:
    module = versions.profiler_module()
    native = module._pywrap_profiler

    class ProfilerSession:
        """The profiler session of the script, for which ours makes room."""

        def __init__(self) -> None:
            self._session = native.ProfilerSession()
            self._running = False

        def start(self, *args: Any) -> Any:
            if not self._running:
                recorder.profiler_starts()
                self._running = True
            try:
                return self._session.start(*args)
            except BaseException:
                self._ended()
                raise

        def stop(self) -> Any:
            try:
                return self._session.stop()
            finally:
                self._ended()

        def export_to_tb(self) -> Any:
            try:
                return self._session.export_to_tb()
            finally:
                self._ended()

        def _ended(self) -> None:
            if self._running:
                self._running = False
                recorder.profiler_stopped()

        def __del__(self) -> None:
            # `stop(save=False)` drops the session, and so ends it.
            self._session = None
            self._ended()

    class PatchedModule(ModuleType):
        def __getattr__(self, name: str) -> Any:
            return getattr(native, name)

    stand_in = PatchedModule(native.__name__)
    stand_in.ProfilerSession = ProfilerSession  # type: ignore[attr-defined]
    module._pywrap_profiler = stand_in


def _files_around_script() -> frozenset[str]:
    """The files of what runs the script, where that is on this thread.

    TensorFlow shows lines with an op's error, and tells whose they are by the file alone.
    """
    script = vars(sys.modules["__main__"])
    within = True
    found: set[str] = set()
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals is script:
            within = False
            found.clear()
        else:
            found.add(frame.f_code.co_filename)
        frame = frame.f_back
    return frozenset() if within else frozenset(found)
