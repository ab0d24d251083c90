"""What TensorFlow 1.15's documentation of `tf.profiler` shows, on both engines."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import profiled_models
import pytest

import stepscope.tf1 as tf1
from stepscope.errors import FailedPreconditionError
from stepscope.tf1.core.profiler import tfprof_log_pb2

PARAMETERS = 79_510
PRODUCTS = 5_180_416
"""Floating-point operations of the step of the MLP."""


class Engine(NamedTuple):
    tf: Any
    tfprof: Any
    """`tf.contrib.tfprof`."""


@pytest.fixture(params=["embedded", pytest.param("tensorflow", marks=pytest.mark.tensorflow)])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "embedded":
        return Engine(tf1, tf1.contrib.tfprof)
    tf = request.getfixturevalue("tf")
    from stepscope.adapters.tensorflow import tfprof

    return Engine(tf, tfprof)


class Model:
    """The MLP in a session; `step()` is a training step as a program makes it."""

    def __init__(self, tf: Any) -> None:
        self.tf = tf
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.train = profiled_models.mlp(tf)
            self.start = tf.global_variables_initializer()
        self.session = tf.Session(graph=self.graph)

    def step(self, **asked: Any) -> None:
        self.session.run(self.train, {"x:0": np.ones((32, 784))}, **asked)

    def traced(self) -> Any:
        metadata = self.tf.RunMetadata()
        options = self.tf.RunOptions(trace_level=self.tf.RunOptions.FULL_TRACE)
        self.step(options=options, run_metadata=metadata)
        return metadata


@pytest.fixture
def model(engine: Engine) -> Any:
    made = Model(engine.tf)
    with made.session, made.graph.as_default():
        made.session.run(made.start)
        yield made


def quiet(tf: Any, options: Any = None) -> Any:
    builder = tf.profiler.ProfileOptionBuilder
    return builder(options or builder.time_and_memory()).order_by("micros").with_empty_output()


def kept(file: Path) -> Any:
    return tfprof_log_pb2.ProfileProto.FromString(file.read_bytes())


def test_explicit_control_of_each_step(engine: Engine, model: Model, tmp_path: Path) -> None:
    folder = tmp_path / "train_dir"
    with engine.tfprof.ProfileContext(str(folder), trace_steps=[], dump_steps=[]) as pctx:
        model.step()
        pctx.trace_next_step()
        pctx.dump_next_step()
        model.step()
        model.step()
        found = pctx.profiler.profile_operations(options=quiet(engine.tf).build())
    assert [file.name for file in folder.iterdir()] == ["profile_1"]
    assert list(kept(folder / "profile_1").steps) == [1]
    micros = [child.exec_micros for child in found.children]
    assert found.total_exec_micros >= max(micros) > 0
    assert "MatMul" in {node.name for node in flat(found)}
    # Outside of it nothing is traced: neither is any of its sessions.
    model.step()
    assert list(kept(folder / "profile_1").steps) == [1]


def flat(node: Any) -> list[Any]:
    return [node, *(below for child in node.children for below in flat(child))]


def test_profiles_at_some_steps_of_a_hidden_loop(
    engine: Engine, model: Model, tmp_path: Path
) -> None:
    parameters = quiet(engine.tf, engine.tf.profiler.ProfileOptionBuilder
                       .trainable_variables_parameter()).build()  # fmt: skip
    context = engine.tfprof.ProfileContext(
        str(tmp_path), trace_steps=range(10, 20), dump_steps=[20]
    )
    with context as pctx:
        pctx.add_auto_profiling("op", quiet(engine.tf).build(), [15, 18, 20])
        pctx.add_auto_profiling("scope", parameters, [20])
        for _ in range(22):
            model.step()
    assert list(kept(tmp_path / "profile_20").steps) == list(range(10, 21))
    assert sorted(context.get_profiles("op")) == [15, 18, 20]
    assert context.get_profiles("op")[15].total_exec_micros > 0
    assert context.get_profiles("scope")[20].total_parameters == PARAMETERS
    with pytest.raises(ValueError, match="code"):
        context.get_profiles("code")


def test_a_context_that_chooses_by_itself(engine: Engine, model: Model, tmp_path: Path) -> None:
    with engine.tfprof.ProfileContext(str(tmp_path)) as pctx:
        for _ in range(101):
            model.step()
        with engine.tf.Session(graph=model.graph) as other:
            other.run(model.start)
        traced = [*kept(tmp_path / "profile_100").steps]
    # New fetches are traced after a warm-up of ten.
    assert traced[0] == 11
    assert len(traced) < 100
    assert 101 in tfprof_log_pb2.ProfileProto.FromString(pctx.profiler.serialize_to_string()).steps


def test_a_program_gets_the_metadata_that_it_asked_for(
    engine: Engine, model: Model, tmp_path: Path
) -> None:
    with engine.tfprof.ProfileContext(str(tmp_path), trace_steps=[0], dump_steps=[1]) as pctx:
        metadata = model.traced()
        model.step()
    assert any(device.node_stats for device in metadata.step_stats.dev_stats)
    assert list(kept(tmp_path / "profile_1").steps) == [0]
    assert pctx.profiler.profile_operations(quiet(engine.tf).build()).total_exec_micros > 0


def test_a_run_that_fails_is_a_step_and_no_profile(
    engine: Engine, model: Model, tmp_path: Path
) -> None:
    with engine.tfprof.ProfileContext(str(tmp_path), [0, 1], []) as pctx:
        with pytest.raises(engine.tf.errors.InvalidArgumentError):
            model.session.run(model.train)  # nothing is fed
        model.step()
        told = tfprof_log_pb2.ProfileProto.FromString(pctx.profiler.serialize_to_string())
    assert list(told.steps) == [1]


def test_a_context_that_is_off(engine: Engine, model: Model, tmp_path: Path) -> None:
    with engine.tfprof.ProfileContext("", enabled=False) as pctx:
        pctx.trace_next_step()
        pctx.dump_next_step()
        pctx.add_auto_profiling("op", {}, [0])
        model.step()
    assert pctx.profiler is None
    assert not list(tmp_path.iterdir())


def test_raw_metadata_for_a_report_of_an_error(
    engine: Engine, model: Model, tmp_path: Path
) -> None:
    with engine.tfprof.ProfileContext(str(tmp_path), [0], [], debug=True):
        model.step()
    assert "hidden/MatMul" in (tmp_path / "run_meta_0").read_text()


def test_what_cannot_be_is_said(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="profile_dir must name a directory"):
        engine.tfprof.ProfileContext("")
    with pytest.raises(ValueError, match="trace_steps may have 100 steps at most"):
        engine.tfprof.ProfileContext("x", trace_steps=range(101))
    with (
        engine.tfprof.ProfileContext(str(tmp_path)) as pctx,
        pytest.raises(ValueError, match="unknown cmd: 'tree'; there are scope, graph, op, code"),
    ):
        pctx.add_auto_profiling("tree", {}, [1])


@pytest.mark.tensorflow
def test_tensorflow_has_one_profiler(tf: Any, tmp_path: Path) -> None:
    del tf
    from stepscope.adapters.tensorflow.tfprof import ProfileContext

    with (
        ProfileContext(str(tmp_path)),
        pytest.raises(FailedPreconditionError, match="another ProfileContext is active"),
        ProfileContext(str(tmp_path)),
    ):
        pass


# -- the other examples --------------------------------------------------------------------------


def test_parameters_and_shapes(
    engine: Engine, model: Model, capfd: pytest.CaptureFixture[str]
) -> None:
    builder = engine.tf.profiler.ProfileOptionBuilder
    found = engine.tf.profiler.profile(model.graph, options=builder.trainable_variables_parameter())
    assert found.total_parameters == PARAMETERS
    assert "hidden/kernel (784x100, 78.40k/78.40k params)" in capfd.readouterr().out
    by_line = builder(builder.trainable_variables_parameter()).with_node_names(
        show_name_regexes=[".*profiled_models.py.*"]
    )
    found = engine.tf.profiler.profile(
        model.graph, cmd="code", options=by_line.with_empty_output().build()
    )
    assert found.total_parameters == PARAMETERS
    assert any("profiled_models.py" in node.name for node in flat(found))


def test_float_operations(engine: Engine, model: Model, capfd: pytest.CaptureFixture[str]) -> None:
    found = engine.tf.profiler.profile(
        model.graph, options=engine.tf.profiler.ProfileOptionBuilder.float_operation()
    )
    assert "hidden/MatMul (5.02m/5.02m flops)" in capfd.readouterr().out
    assert found.total_float_ops > PRODUCTS


def test_time_and_memory(engine: Engine, model: Model, capfd: pytest.CaptureFixture[str]) -> None:
    builder = engine.tf.profiler.ProfileOptionBuilder
    metadata = model.traced()
    options = builder(builder.time_and_memory()).with_node_names(
        show_name_regexes=[".*profiled_models.py.*"]
    )
    found = engine.tf.profiler.profile(
        model.graph, run_meta=metadata, cmd="code", options=options.build()
    )
    assert "profiled_models.py" in capfd.readouterr().out
    assert found.total_exec_micros > 0
    assert found.total_requested_bytes > 0
    found = engine.tf.profiler.profile(
        model.graph, run_meta=metadata, options=builder.time_and_memory()
    )
    assert "hidden/MatMul" in capfd.readouterr().out
    assert found.total_requested_bytes > 0


def test_several_steps_and_advice(
    engine: Engine, model: Model, capfd: pytest.CaptureFixture[str]
) -> None:
    options = engine.tfprof.model_analyzer.PRINT_ALL_TIMING_MEMORY.copy()
    options["account_type_regexes"] = [".*"]
    options["output"] = "none"
    profiler = engine.tf.profiler.Profiler(model.graph)
    assert profiler.profile_name_scope(options).total_exec_micros == 0
    for number in (1, 2):
        profiler.add_step(number, model.traced())
        assert profiler.profile_name_scope(options).total_exec_micros > 0
    advice = profiler.advise(engine.tfprof.model_analyzer.ALL_ADVICE)
    assert "ExpensiveOperationChecker" in advice.checkers
    said = capfd.readouterr().out
    assert "top 1 operation type:" in said
    assert "top 1 graph node:" in said
    del profiler
    advice = engine.tf.profiler.advise(model.graph, run_meta=model.traced())
    assert "ExpensiveOperationChecker" in advice.checkers


def test_time_by_line_under_the_older_name(engine: Engine, model: Model) -> None:
    options = engine.tfprof.model_analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS.copy()
    options["account_type_regexes"] = [".*"]
    options["show_name_regexes"] = [".*profiled_models.py.*"]
    options["account_displayed_op_only"] = False
    options["select"] = ["micros"]
    options["output"] = "none"
    found = engine.tfprof.model_analyzer.print_model_analysis(
        model.graph, model.traced(), tfprof_cmd="code", tfprof_options=options
    )
    assert found.total_exec_micros > 0


@pytest.mark.parametrize(
    ("view", "column", "heading"),
    [
        ("op", "micros", "execution time"),
        ("op", "bytes", "requested bytes"),
        ("op", "device", "assigned devices"),
        ("scope", "bytes", "requested bytes"),
        ("graph", "micros", "execution time"),
    ],
)
def test_what_the_command_line_showed(
    engine: Engine, model: Model, tmp_path: Path, view: str, column: str, heading: str
) -> None:
    file = tmp_path / "report"
    options = (
        quiet(engine.tf).select([column]).with_max_depth(10000).with_file_output(str(file)).build()
    )
    engine.tf.profiler.profile(model.graph, model.traced(), cmd=view, options=options)
    said = file.read_text()
    assert heading in said
    assert "MatMul" in said


def test_a_timeline_of_a_step(engine: Engine, model: Model, tmp_path: Path) -> None:
    file = tmp_path / "timeline.json"
    options = quiet(engine.tf).with_max_depth(10_000_000).with_step(0)
    engine.tf.profiler.profile(
        model.graph, model.traced(), cmd="graph",
        options=options.with_timeline_output(str(file)).build(),
    )  # fmt: skip
    events = json.loads((tmp_path / "timeline.json_0").read_text())["traceEvents"]
    assert any("MatMul" in str(event) for event in events)


def test_types_of_an_op_log(engine: Engine, model: Model, tmp_path: Path) -> None:
    message = engine.tf.profiler.OpLogProto
    op_log = message()
    for name in ("out/kernel", "out/bias"):
        entry = op_log.log_entries.add()
        entry.name = name
        entry.types.append("pool_logit")
    engine.tf.profiler.write_op_log(model.graph, str(tmp_path), op_log)
    engine.tf.profiler.write_op_log(model.graph, str(tmp_path), op_log, model.traced())
    written = message.FromString((tmp_path / "tfprof_log").read_bytes())
    types = {entry.name: [*entry.types] for entry in written.log_entries}
    assert set(types["out/kernel"]) == {"pool_logit", "_trainable_variables"}
    options = (
        quiet(engine.tf, engine.tf.profiler.ProfileOptionBuilder.trainable_variables_parameter())
        .with_accounted_types(["pool_logit"]).with_file_output(str(tmp_path / "report")).build()
    )  # fmt: skip
    found = engine.tf.profiler.profile(model.graph, op_log=written, options=options)
    assert found.total_parameters == 1_010
    assert re.search(r"out/kernel \(100x10, 1\.00k/1\.00k params\)",
                     (tmp_path / "report").read_text())  # fmt: skip
