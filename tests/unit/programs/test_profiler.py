"""`tf.profiler`, beside the real TensorFlow's on the same graphs and runs."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from typing import Any

import numpy as np
import profiled_models
import pytest

import stepscope.tf1 as tf1
from stepscope._messages import MetaGraphDef, RunMetadataMessage
from stepscope.analysis.model_profile import nodes, options, views
from stepscope.errors import InvalidArgumentError, UnimplementedError
from stepscope.metadata import RunMetadata
from stepscope.programs.profiler import model_analyzer, option_builder, profile_context
from stepscope.tf1.core.profiler import tfprof_log_pb2

Builder = tf1.profiler.ProfileOptionBuilder
PARAMETERS = Builder(Builder.trainable_variables_parameter()).with_empty_output().build()
FLOAT_OPS = Builder(Builder.float_operation()).with_empty_output().build()
ALL = [
    "bytes", "peak_bytes", "residual_bytes", "output_bytes", "micros", "params", "float_ops",
    "occurrence", "device", "op_types", "input_shapes",
]  # fmt: skip


def _totals(tf: Any, graph: Any) -> tuple[int, int]:
    return (
        tf.profiler.profile(graph, options=PARAMETERS).total_parameters,
        tf.profiler.profile(graph, options=FLOAT_OPS).total_float_ops,
    )


def _exported(tf: Any, graph: Any) -> Any:
    with graph.as_default():
        return MetaGraphDef.FromString(tf.train.export_meta_graph().SerializeToString())


KNOWN = {"mlp": 79_510, "cnn": 7_840, "lstm": 392, "resnet50": 25_557_032}


@pytest.mark.tensorflow
@pytest.mark.parametrize("model", profiled_models.MODELS)
def test_parameters_and_float_operations_are_tensorflows(tf: Any, model: str) -> None:
    with tf.Graph().as_default() as theirs:
        profiled_models.MODELS[model](tf)
    wanted = _totals(tf, theirs)
    assert wanted[0] == KNOWN[model]
    assert _totals(tf1, _exported(tf, theirs)) == wanted


@pytest.mark.tensorflow
@pytest.mark.parametrize("model", profiled_models.MODELS)
def test_a_graph_built_here_counts_as_on_tensorflow(tf: Any, model: str) -> None:
    with tf1.Graph().as_default() as ours:
        profiled_models.MODELS[model](tf1)
    with tf.Graph().as_default() as theirs:
        nodes = tf.GraphDef.FromString(ours.as_graph_def().SerializeToString())
        tf.import_graph_def(nodes, name="")
    assert _totals(tf1, ours) == (KNOWN[model], _totals(tf, theirs)[1])


class _Recorded:
    """A graph of TensorFlow's and a run of it, as messages of ours and its own."""

    def __init__(self, tf: Any) -> None:
        with tf.Graph().as_default() as self.graph, tf.Session() as session:
            train = profiled_models.mlp(tf, rows=None)
            session.run(tf.global_variables_initializer())
            self.run = tf.RunMetadata()
            session.run(
                train, {"x:0": np.ones((32, 784))},
                options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=self.run,
            )  # fmt: skip
        self.our_graph = _exported(tf, self.graph)
        self.our_run = RunMetadataMessage.FromString(self.run.SerializeToString())

    def pair(self, tf: Any, view: str, asked: dict[str, Any]) -> tuple[Any, Any]:
        """What TensorFlow says and what we say, as messages of TensorFlow's class."""
        theirs = tf.profiler.profile(self.graph, self.run, cmd=view, options=asked)
        ours = tf1.profiler.profile(self.our_graph, self.our_run, cmd=view, options=asked)
        return theirs, type(theirs).FromString(ours.SerializeToString())


@pytest.fixture(scope="module")
def recorded(tf: Any) -> _Recorded:
    return _Recorded(tf)


ASKED = {
    "everything": Builder().with_empty_output().build(),
    "time and memory": Builder(Builder.time_and_memory()).order_by("name")
    .with_empty_output().build(),
    "one level of what is on a device": Builder().with_max_depth(2)
    .with_accounted_types([".*cpu:0"]).with_empty_output().build(),
    "products of the gradient": Builder(Builder.float_operation()).order_by("name")
    .with_node_names(start_name_regexes=["gradients.*"], hide_name_regexes=[".*bias.*"])
    .with_empty_output().build(),
    "nothing below the hidden layer": Builder().account_displayed_op_only(True)
    .with_node_names(trim_name_regexes=["hidden"], show_name_regexes=[".*"])
    .with_min_memory(min_output_bytes=1).with_empty_output().build(),
}  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("view", ["scope", "graph", "op"])
def test_a_view_is_tensorflows(tf: Any, recorded: _Recorded, view: str, asked: str) -> None:
    theirs, ours = recorded.pair(tf, view, ASKED[asked])
    assert ours == theirs


@pytest.mark.tensorflow
@pytest.mark.parametrize("view", ["scope", "graph", "op"])
def test_lines_of_a_report_are_tensorflows(
    tf: Any, recorded: _Recorded, view: str, tmp_path: Path
) -> None:
    lines = []
    for profiler, graph, run in (
        (tf.profiler, recorded.graph, recorded.run),
        (tf1.profiler, recorded.our_graph, recorded.our_run),
    ):
        file = tmp_path / profiler.__name__
        asked = Builder().select(ALL).with_file_output(str(file)).build()
        profiler.profile(graph, run, cmd=view, options=asked)
        lines.append(file.read_text().partition("Profile:")[2].splitlines())
    theirs, ours = lines
    assert len(ours) > 20
    assert ours == theirs


@pytest.mark.tensorflow
def test_an_op_log_of_ours_is_tensorflows(tf: Any, recorded: _Recorded) -> None:
    from tensorflow.python.profiler import tfprof_logger

    theirs = tfprof_logger.merge_default_with_oplog(
        recorded.graph, run_meta=recorded.run, add_trace=False
    )
    given = tfprof_log_pb2.OpLogProto()
    given.log_entries.add(name="x").types.append("input")
    ours = tf1.python.profiler.tfprof_logger.merge_default_with_oplog(
        recorded.our_graph, given, recorded.our_run, add_trace=False
    )
    told = {e.name: (e.float_ops, sorted(e.types)) for e in ours.log_entries}
    assert told.pop("x") == (0, ["input"])
    assert told == {e.name: (e.float_ops, sorted(e.types)) for e in theirs.log_entries}
    assert len(given.log_entries) == 1


@pytest.mark.tensorflow
def test_tensorflows_own_takes_what_we_record(tf: Any, recorded: _Recorded) -> None:
    asked = Builder(Builder.time_and_memory()).order_by("name").with_empty_output().build()
    ours = RunMetadata.FromString(recorded.run.SerializeToString())
    profiler = tf.profiler.Profiler(recorded.graph)
    for step in range(2):
        profiler.add_step(step, ours)
    found = profiler.profile_operations(options=asked)
    assert found.total_exec_micros > 0
    assert found == tf.profiler.profile(recorded.graph, recorded.run, cmd="op", options=asked)


# -- on the embedded engine ----------------------------------------------------------------------


@pytest.fixture
def step() -> Any:
    """A function that runs a training step of a model and gives its metadata."""
    with tf1.Graph().as_default() as graph:
        train = profiled_models.mlp(tf1)
        session = tf1.Session(graph=graph)
        session.run(tf1.global_variables_initializer())

    def run() -> Any:
        metadata = tf1.RunMetadata()
        session.run(
            train, {"x:0": np.ones((32, 784))},
            options=tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE), run_metadata=metadata,
        )  # fmt: skip
        return metadata

    with session, graph.as_default():
        yield run


def test_the_documented_loop(step: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profiler = tf1.profiler.Profiler(tf1.get_default_graph())
    for number in range(3):
        metadata = step()
        profiler.add_step(number, metadata)
    asked = Builder.trainable_variables_parameter()
    assert profiler.profile_name_scope(options=asked).total_parameters == 79_510
    assert "hidden/kernel (784x100, 78.40k/78.40k params)" in capsys.readouterr().out
    by_type = profiler.profile_operations(options=Builder.time_and_memory())
    assert by_type.total_exec_micros >= by_type.children[0].exec_micros > 0
    assert by_type.total_requested_bytes > 0
    file = tmp_path / "trace.json"
    opts = Builder(Builder.time_and_memory()).with_step(2).with_timeline_output(str(file)).build()
    profiler.profile_graph(options=opts)
    events = json.loads(file.with_name("trace.json_2").read_text())["traceEvents"]
    ran = [event for event in events if event["ph"] == "X"]
    assert len(ran) == len(metadata.ops)
    advice = profiler.advise()
    assert advice.checkers["ExpensiveOperationChecker"].reports[0].startswith("top 1 operation")
    kept = tfprof_log_pb2.ProfileProto.FromString(profiler.serialize_to_string())
    assert list(kept.steps) == [0, 1, 2]
    product = next(node for node in kept.nodes.values() if node.name == "hidden/MatMul")
    assert (product.op, product.float_ops, len(product.execs)) == ("MatMul", 5_017_600, 3)


def test_lines_of_the_program(step: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked = Builder(Builder.float_operation()).with_node_names(
        show_name_regexes=[".*profiled_models.*"]
    )
    found = tf1.profiler.profile(run_meta=step(), cmd="code", options=asked.build())
    line = next(place for place in found.children if place.name.endswith(":mlp"))
    assert line.name.startswith("profiled_models.py:")
    out = capsys.readouterr().out
    assert f"{line.name} (0/5.18m flops)" in out
    # A gradient is where what it is the gradient of was made.
    assert f"{line.name} (gradient) (0/" in out


def test_older_names(step: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tfprof = tf1.contrib.tfprof
    graph = tf1.get_default_graph()
    found = tfprof.model_analyzer.print_model_analysis(
        graph, tfprof_options=tfprof.model_analyzer.FLOAT_OPS_OPTIONS
    )
    assert found.total_float_ops == tf1.profiler.profile(graph, options=FLOAT_OPS).total_float_ops
    assert "hidden/MatMul (5.02m/5.02m flops)" in capsys.readouterr().out
    tfprof.tfprof_logger.write_op_log(graph, str(tmp_path))
    log = tfprof_log_pb2.OpLogProto.FromString((tmp_path / "tfprof_log").read_bytes())
    entry = next(entry for entry in log.log_entries if entry.name == "hidden/MatMul")
    assert entry.float_ops == 5_017_600
    innermost = entry.code_def.traces[-1]
    assert log.id_to_string[innermost.file_id] == profiled_models.__file__


WRONG = {
    "a view": ({"cmd": "tree"}, "unknown cmd: 'tree'; there are scope, graph, op, code"),
    "an attribute": ({"options": {"select": ["speed"]}}, "select has 'speed'; it may have bytes"),
    "an order": ({"options": {"order_by": "age"}}, "order_by is 'age'; it may be name, bytes"),
    "an output": ({"options": {"output": "fax"}}, "output is 'fax'; it may be none, stdout"),
    "an expression": ({"options": {"show_name_regexes": ["("]}}, "show_name_regexes has '('"),
    "a timeline of nothing": (
        {"options": Builder().with_timeline_output("x").build()}, "a timeline needs a run",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_said(case: str) -> None:
    arguments, said = WRONG[case]
    with pytest.raises(InvalidArgumentError) as caught:
        tf1.profiler.profile(tf1.Graph(), **arguments)
    assert said in str(caught.value)


def test_a_graph_that_is_none() -> None:
    with pytest.raises(TypeError, match="graph must be a Graph, a GraphDef or a MetaGraphDef"):
        tf1.profiler.profile("train.py")


@pytest.mark.parametrize(
    "module", [nodes, options, views, model_analyzer, option_builder, profile_context]
)
def test_the_worked_examples_are_true(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


def test_output_for_pprof_is_an_error_that_says_what_makes_it(tmp_path: Path) -> None:
    with tf1.Graph().as_default() as graph:
        tf1.get_variable("w", [2, 3])
    build = Builder(Builder.trainable_variables_parameter()).with_pprof_output(str(tmp_path / "p"))
    with pytest.raises(UnimplementedError, match="stepscope export PATH --to pprof"):
        tf1.profiler.profile(graph, options=build.build())
    assert not (tmp_path / "p").exists()
