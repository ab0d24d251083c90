"""`tf.profiler` on the embedded engine: profiles of a graph and of runs of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from stepscope.analysis import model_profile
from stepscope.analysis.model_profile import VIEWS, ModelProfile, ProfileOptions, shapes_of_runs
from stepscope.errors import InvalidArgumentError, UnimplementedError
from stepscope.export import Timeline
from stepscope.graph import get_default_graph
from stepscope.metadata import as_run_metadata
from stepscope.metadata.wire.profile_messages import AdviceProto
from stepscope.programs.profiler.op_log import graph_def_of, merge_default_with_oplog
from stepscope.programs.profiler.option_builder import ProfileOptionBuilder
from stepscope.programs.profiler.profile_file import profile_message
from stepscope.whole_files import whole_file

__all__ = [
    "ALL_ADVICE",
    "FLOAT_OPS_OPTIONS",
    "PRINT_ALL_TIMING_MEMORY",
    "TRAINABLE_VARS_PARAMS_STAT_OPTIONS",
    "Profiler",
    "advise",
    "print_model_analysis",
    "profile",
]

ALL_ADVICE: dict[str, dict[str, str]] = {name: {} for name in model_profile.CHECKERS}
TRAINABLE_VARS_PARAMS_STAT_OPTIONS = ProfileOptionBuilder.trainable_variables_parameter()
FLOAT_OPS_OPTIONS = ProfileOptionBuilder.float_operation()
PRINT_ALL_TIMING_MEMORY = ProfileOptionBuilder.time_and_memory()
_UNSAID = 0


class Profiler:
    """Profiles of a graph over several steps.

    Unlike TensorFlow's, there may be any number of them.

    >>> from stepscope.graph import Graph
    >>> profiler = Profiler(Graph())
    >>> options = ProfileOptionBuilder().with_empty_output().build()
    >>> profiler.profile_name_scope(options).total_parameters
    0
    """

    def __init__(self, graph: Any = None, op_log: Any = None) -> None:
        """`graph` is the default graph if it is None; `op_log` gives ops further types."""
        self._graph = get_default_graph() if graph is None else graph
        self._runs: dict[int, list[Any]] = {}
        self._profile = ModelProfile()
        self._add(op_log, None, add_trace=True)

    def _add(self, op_log: Any, run_meta: Any, *, add_trace: bool) -> None:
        shapes = None if run_meta is None else shapes_of_runs(run_meta)
        self._profile.add_graph(graph_def_of(self._graph), shapes)
        log = merge_default_with_oplog(self._graph, op_log, run_meta, add_trace=add_trace)
        self._profile.add_log(log)

    def add_step(self, step: int, run_meta: Any) -> None:
        """Add a run to a step; several of one number are taken together."""
        self._add(None, run_meta, add_trace=False)
        self._profile.add_run(step, run_meta)
        self._runs.setdefault(step, []).append(run_meta)

    def profile_name_scope(self, options: Mapping[str, Any]) -> Any:
        """By scopes: a `GraphNodeProto`."""
        return self._view("scope", options)

    def profile_graph(self, options: Mapping[str, Any]) -> Any:
        """By the graph: a `GraphNodeProto`."""
        return self._view("graph", options)

    def profile_operations(self, options: Mapping[str, Any]) -> Any:
        """By op types: a `MultiGraphNodeProto`."""
        return self._view("op", options)

    def profile_python(self, options: Mapping[str, Any]) -> Any:
        """By the program's lines: a `MultiGraphNodeProto`."""
        return self._view("code", options)

    def advise(self, options: Mapping[str, Any] | None = None) -> Any:
        """An `AdviceProto`: what the checkers found that `options` name, all by default."""
        try:
            found = model_profile.advice(self._profile, ALL_ADVICE if options is None else options)
        except ValueError as error:
            raise InvalidArgumentError.without_op(str(error)) from None
        told = AdviceProto()
        for name, reports in found.items():
            told.checkers[name].reports.extend(reports)
            _print("", f"{name}:", *filter(None, reports))
        _print("")
        return told

    def serialize_to_string(self) -> bytes:
        """A `ProfileProto`: all nodes and what they took, step by step."""
        data: bytes = profile_message(self._profile).SerializeToString()
        return data

    @property
    def _coverage(self) -> float:
        """Which share of the graph ran in the steps that were added."""
        nodes = self._profile.nodes.values()
        return sum(bool(node.executions) for node in nodes) / len(nodes) if nodes else 0.0

    def _write_profile(self, filename: str) -> None:
        with whole_file(filename) as file:
            file.write(self.serialize_to_string())

    def _view(self, view: Any, given: Mapping[str, Any]) -> Any:
        try:
            options = ProfileOptions.of(given)
        except ValueError as error:
            raise InvalidArgumentError.without_op(str(error)) from None
        root = model_profile.view_of(self._profile, view, options)
        self._write(view, root, options)
        return model_profile.message_of(self._profile, view, root, options)

    def _write(self, view: Any, root: Any, options: ProfileOptions) -> None:
        kind, file = options.output_to
        if kind == "none":
            return
        if kind == "pprof":
            raise UnimplementedError.without_op(
                "output='pprof' is not implemented by the embedded engine; with_file_output writes "
                "the same as text, with_timeline_output a Chrome trace, and of recorded runs "
                "`stepscope export PATH --to pprof` is such a profile",
            )
        if kind == "timeline":
            self._write_timeline(file, options.step)
            return
        text = model_profile.report(self._profile, view, root, options)
        if kind == "stdout":
            _print(model_profile.framed(text, options))
        else:
            _write_text(file, text)

    def _write_timeline(self, file: str, step: int) -> None:
        if not self._runs:
            raise InvalidArgumentError.without_op(
                "a timeline needs a run: pass run_meta, or add_step(step, run_meta) before",
            )
        step = max(self._runs) if step < 0 else step
        if step not in self._runs:
            known = ", ".join(map(str, sorted(self._runs)))
            raise InvalidArgumentError.without_op(f"there is no step {step}; there are {known}")
        run = as_run_metadata(self._runs[step][-1])
        _write_text(f"{file}_{step}", Timeline(run.step_stats).generate_chrome_trace_format())
        _print(f"wrote {file}_{step} (open it in ui.perfetto.dev or chrome://tracing)")


def profile(
    graph: Any = None,
    run_meta: Any = None,
    op_log: Any = None,
    cmd: str = "scope",
    options: Any = _UNSAID,
) -> Any:
    """What a graph holds and does, and what a run of it took.

    Args:
      graph: a `Graph`, the default one if None; a `GraphDef` or `MetaGraphDef` will do.
      run_meta: a run of it: time and memory, and shapes that the graph does not know.
      op_log: an `OpLogProto` with further types of ops.
      cmd: "scope" and "graph" give a `GraphNodeProto`, "op" and "code" a `MultiGraphNodeProto`.
      options: a dictionary as `ProfileOptionBuilder` builds them; parameters by default.

    >>> from stepscope.graph import Graph
    >>> options = ProfileOptionBuilder(ProfileOptionBuilder.float_operation())
    >>> profile(Graph(), options=options.with_empty_output().build()).total_float_ops
    0
    """
    if cmd not in VIEWS:
        raise InvalidArgumentError.without_op(f"unknown cmd: {cmd!r}; there are {', '.join(VIEWS)}")
    if options == _UNSAID:
        options = ProfileOptionBuilder.trainable_variables_parameter()
    return _once(graph, run_meta, op_log)._view(cmd, options)


def print_model_analysis(
    graph: Any,
    run_meta: Any = None,
    op_log: Any = None,
    tfprof_cmd: str = "scope",
    tfprof_options: Any = TRAINABLE_VARS_PARAMS_STAT_OPTIONS,
) -> Any:
    """`profile` as `tf.contrib.tfprof` called it."""
    return profile(graph, run_meta, op_log, tfprof_cmd, tfprof_options)


def advise(graph: Any = None, run_meta: Any = None, options: Any = _UNSAID) -> Any:
    """What stands out in a graph and a run of it: an `AdviceProto`.

    `options` has the names of checkers as keys, all of them (`ALL_ADVICE`) by default.
    """
    return _once(graph, run_meta, None).advise(None if options == _UNSAID else options)


def _once(graph: Any, run_meta: Any, op_log: Any) -> Profiler:
    profiler = Profiler(graph, op_log)
    if run_meta is not None:
        profiler.add_step(0, run_meta)
    return profiler


def _print(*lines: str) -> None:
    sys.stdout.write("\n".join([*lines, ""]))


def _write_text(file: str, text: str | Iterable[str]) -> None:
    with whole_file(file) as out:
        out.write((text if isinstance(text, str) else "".join(text)).encode())
