"""Coverage: every node of the user's graph measured, or with the reason why not."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest
from coverage_graph import FATES, ITERATIONS, build

import stepscope
from stepscope import _messages as pb
from stepscope.analysis import Coverage, coverage
from stepscope.analysis.coverage.report import STATES
from stepscope.metadata import Completeness, InFlight, Loss, OpColumns, Recording, Status


def accounted_ns(result: Coverage) -> int:
    return sum(row.total_ns for row in result) + result.added_ns


def recorded_ns(metadata: stepscope.RunMetadata) -> int:
    return int((metadata.ops.end_ns - metadata.ops.start_ns).sum())


def native(
    tf: Any, graph: Any, fetches: Any, feeds: Any, partitions: bool = True, session: Any = None
) -> stepscope.RunMetadata:
    """The metadata of TensorFlow's own session."""
    message = tf.RunMetadata()
    options = tf.RunOptions(
        trace_level=tf.RunOptions.SOFTWARE_TRACE, output_partition_graphs=partitions
    )
    if session is not None:
        session.run(fetches, feeds, options=options, run_metadata=message)
    else:
        with tf.Session(graph=graph) as own:
            own.run(fetches, feeds, options=options, run_metadata=message)
    return stepscope.RunMetadata.FromString(message.SerializeToString())


def fates(result: Coverage) -> dict[str, tuple[str, str]]:
    """State and detail by node, functions without the numbers TensorFlow gives them."""
    found = {}
    for row in result:
        short = row.function.removeprefix("__inference_").rpartition("_")[0]
        name = f"{short}:{row.name}" if row.name == "Identity" else row.name
        detail = row.detail
        if row.state == "inlined":
            detail = detail.removeprefix("__inference_").rpartition("_")[0]
        assert name not in found
        found[name] = (row.state, detail)
    return found


def made_up(
    names: dict[str, str],
    *,
    graphs: list[Any] | None = None,
    losses: tuple[Loss, ...] = (),
    status: Status | None = None,
    engine: str = "tensorflow session",
) -> stepscope.RunMetadata:
    """A run of these nodes, a microsecond each."""
    count = len(names)
    start = np.arange(count) * 1000 + 10**15
    metadata = stepscope.RunMetadata()
    metadata.record(
        Recording(
            engine=engine,
            status=status or Status(),
            completeness=Completeness(losses=losses),
            ops=lambda: OpColumns.build(
                name=list(names),
                op=list(names.values()),
                device=["/device:CPU:0"] * count,
                thread=[1] * count,
                scheduled_ns=start,
                start_ns=start,
                end_ns=start + 1000,
            ),
            partition_graphs=lambda: graphs or [],
        )
    )
    return metadata


def graph_of(*nodes: tuple[str, str, list[str]]) -> Any:
    graph = pb.GraphDef()
    for name, op, inputs in nodes:
        graph.node.add(name=name, op=op, input=inputs)
    return graph


@pytest.fixture(scope="module")
def run(tensorflow: Any) -> tuple[Any, stepscope.RunMetadata]:
    """The graph of known fates, and a run of it in TensorFlow's own session."""
    graph, fetches, feeds = build(tensorflow)
    return graph, native(tensorflow.compat.v1, graph, fetches, feeds)


class TestKnownFates:
    def test_every_reason_of_the_60_nodes_is_right(self, run: Any) -> None:
        graph, metadata = run
        assert len(FATES) == 60
        assert fates(coverage(metadata, graph)) == FATES

    def test_executions_and_time_are_those_of_the_record(self, run: Any) -> None:
        graph, metadata = run
        result = coverage(metadata, graph)
        assert result["scaled"].executions == 1
        assert result["root"].executions == ITERATIONS
        assert result["before_end_0"].executions == ITERATIONS + 1
        assert result["matmul"].executions == 0
        assert result["cosine"].total_ns == 0
        ops = metadata.ops
        mine = ops[ops.name == "relu"]
        assert result["relu"].total_ns == int((mine.end_ns - mine.start_ns).sum())
        assert accounted_ns(result) == recorded_ns(metadata)
        assert result.added == {"NoOp": 1, "_Arg": 5, "_Retval": 1}

    def test_a_graph_def_of_any_family_will_do(self, run: Any, tensorflow: Any) -> None:
        graph, metadata = run
        theirs = graph.as_graph_def()
        ours = pb.GraphDef.FromString(theirs.SerializeToString())
        assert coverage(metadata, theirs).rows == coverage(metadata, graph).rows
        assert fates(coverage(metadata, ours)) == FATES

    def test_without_partition_graphs_names_still_tell_most(
        self, run: Any, tensorflow: Any
    ) -> None:
        graph, metadata = run
        bare = stepscope.RunMetadata.FromString(metadata.SerializeToString())
        del bare.partition_graphs[:]
        result = coverage(bare, graph)
        found = fates(result)
        # What is neither in the record nor told by a name must not be guessed.
        assert found.pop("there") == found.pop("back") == ("unknown", "")
        different = {name for name, fate in found.items() if fate != FATES[name]}
        assert different == {"there/perm", "back/perm"}
        assert found["there/perm"] == found["back/perm"] == ("unknown", "")
        assert found["square"] == FATES["square"]
        assert found["matmul"] == ("fused", "relu")
        assert accounted_ns(result) == recorded_ns(bare)

    def test_our_own_session_tells_the_same_once_warm(self, tensorflow: Any) -> None:
        from stepscope.adapters import tensorflow as adapter

        graph, fetches, feeds = build(tensorflow)
        options = stepscope.RunOptions(trace_level=1, output_partition_graphs=True)
        metadata = stepscope.RunMetadata()
        with adapter.Session(graph=graph) as session:
            for _ in range(150):
                session.run(fetches, feeds)
            session.run(fetches, feeds, options=options, run_metadata=metadata)
        result = coverage(metadata, graph)
        # The profiler has no time for constants, where TensorFlow's own step stats have one.
        assert {row.op for row in result.where("constant")} == {"Const"}
        found = {
            name: ("measured", "") if fate == ("constant", "") else fate
            for name, fate in fates(result).items()
        }
        assert found == FATES
        assert accounted_ns(result) == recorded_ns(metadata)

    def test_the_rows_go_to_json(self, run: Any) -> None:
        graph, metadata = run
        result = coverage(metadata, graph)
        back = json.loads(json.dumps(result.to_dict()))
        assert back["counts"] == result.counts()
        assert sum(back["counts"].values()) == len(result) == 60
        assert list(back["counts"]) == [state for state in STATES if state in back["counts"]]
        assert back["rows"][0] == {
            "name": "x",
            "op": "Placeholder",
            "function": "",
            "state": "fed",
            "detail": "",
            "executions": 0,
            "total_ns": 0,
        }
        assert result["biased"].reason == "fused into relu"
        assert result["other_twin"].reason == "duplicate of twin"
        assert result["there/perm"].reason == "no-op with there"
        assert result["cosine"].reason == "branch not taken: else of choice"
        assert [row.name for row in result.where("rewritten")] == ["square"]

    def test_the_other_branch_and_no_iteration(self, tensorflow: Any) -> None:
        graph, fetches, feeds = build(tensorflow)
        feeds = {
            tensor: {"flag:0": False, "times:0": 0}.get(tensor.name, value)
            for tensor, value in feeds.items()
        }
        found = fates(coverage(native(tensorflow.compat.v1, graph, fetches, feeds), graph))
        for name in ("sine", "sine_scale", "sine_scaled_0"):
            assert found[name] == ("branch not taken", "then of choice")
        assert found["cosine"] == ("measured", "")
        assert found["before_end_0"] == ("measured", "")
        for name in ("root", "one_more", "one_more_sum_0", "next_step_0", "step"):
            assert found[name] == ("branch not taken", "body of loop, which made no iteration")

    def test_optimisers_off_leave_what_cannot_run_by_itself(self, tensorflow: Any) -> None:
        tf = tensorflow.compat.v1
        graph, fetches, feeds = build(tensorflow)
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
        with tf.Session(graph=graph, config=config) as session:
            metadata = native(tf, graph, fetches, feeds, session=session)
        result = coverage(metadata, graph)
        assert result.unknown == 0
        for name in ("matmul", "biased", "relu", "sum", "other_twin", "same", "there", "square"):
            assert (result[name].state, result[name].detail) == ("measured", "")
        assert result["idle"].state == "pruned"
        assert accounted_ns(result) == recorded_ns(metadata)


class TestSingleReasons:
    def test_a_fed_tensor_that_is_no_placeholder(self, tf: Any) -> None:
        graph = tf.Graph()
        with graph.as_default():
            before = tf.exp(tf.constant([1.0, 2.0], name="start"), name="before")
            middle = tf.sin(before, name="middle")
            after = tf.cos(middle, name="after")
        metadata = native(tf, graph, after, {middle: [1.0, 2.0]})
        found = {row.name: row.state for row in coverage(metadata, graph)}
        assert found == {
            "start": "pruned",
            "before": "pruned",
            "middle": "fed",
            "after": "measured",
        }

    def test_version_1_control_flow(self, tensorflow: Any) -> None:
        tf = tensorflow.compat.v1
        graph = tf.Graph()
        v2 = tf.control_flow_v2_enabled()
        tf.disable_control_flow_v2()
        try:
            with graph.as_default():
                flag = tf.placeholder(tf.bool, [], name="flag")
                x = tf.placeholder(tf.float32, [4], name="x")
                chosen = tf.cond(flag, lambda: tf.sin(x, name="yes"), lambda: tf.cos(x, name="no"))
                out = tf.tanh(chosen, name="out")
        finally:
            if v2:
                tf.enable_control_flow_v2()
        result = coverage(native(tf, graph, out, {flag: True, x: [1.0] * 4}), graph)
        assert result["cond/yes"].state == "measured"
        assert result["cond/no"].state == "branch not taken"
        assert result["cond/Merge"].state == "measured"
        assert result.unknown == 0

    def test_functions_of_datasets_run_inside_of_them(self, tensorflow: Any) -> None:
        tf = tensorflow.compat.v1
        graph = tf.Graph()
        with graph.as_default():
            numbers = tf.data.Dataset.range(5).map(lambda n: tf.square(n, name="squared"))
            following = tf.data.make_one_shot_iterator(numbers).get_next()
            out = tf.negative(following, name="out")
        result = coverage(native(tf, graph, out, {}), graph)
        assert result["out"].state == "measured"
        assert result["squared"].reason == "inside another op: MapDataset"
        assert result.unknown == 0

    def test_a_call_that_is_not_inlined_is_measured_inside(self, tensorflow: Any) -> None:
        tf = tensorflow.compat.v1

        @tensorflow.function(experimental_attributes={"_noinline": True})
        def apart(value: Any) -> Any:
            return tf.tanh(tf.cumsum(value, name="apart_sum"), name="shared")

        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32, [4], name="x")
            out = tf.tanh(apart(x), name="shared")
        metadata = native(tf, graph, out, {x: [2.0] * 4})
        result = coverage(metadata, graph)
        assert result["PartitionedCall"].state == "measured"
        assert result["apart_sum"].state == "measured"
        shared = [row for row in result if row.name == "shared"]
        assert [(row.state, row.executions) for row in shared] == [("measured", 1)] * 2
        assert accounted_ns(result) == recorded_ns(metadata)

    def test_one_function_called_twice_has_one_row_per_node(self, tensorflow: Any) -> None:
        tf = tensorflow.compat.v1

        @tensorflow.function
        def twice(value: Any) -> Any:
            return tf.cumsum(value, name="inside")

        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32, [4], name="x")
            out = tf.exp(twice(tf.sin(twice(x), name="between")), name="out")
        result = coverage(native(tf, graph, out, {x: [2.0] * 4}), graph)
        inside = [row for row in result if row.name == "inside"]
        assert [(row.state, row.executions) for row in inside] == [("measured", 2)]

    def test_clusters_that_xla_formed_by_itself(self) -> None:
        """Names as TensorFlow gives them with `--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit`."""
        graph = graph_of(
            ("x", "Placeholder", []),
            ("a", "Exp", ["x"]),
            ("b", "Sin", ["a"]),
            ("python", "PyFunc", ["b"]),
            ("c", "Tanh", ["python"]),
        )
        names = ("xla_compile", "xla_run", "merge_oidx_0")
        ops = ("_XlaCompile", "_XlaRun", "_XlaMerge")
        executed = graph_of(
            ("_arg_x_0_0", "_Arg", []),
            ("cluster_0_1/xla_compile", "_XlaCompile", ["_arg_x_0_0"]),
            ("cluster_0_1/xla_run", "_XlaRun", ["_arg_x_0_0", "cluster_0_1/xla_compile"]),
            ("cluster_0_1/merge_oidx_0", "_XlaMerge", ["cluster_0_1/xla_run"]),
            ("python", "PyFunc", ["cluster_0_1/merge_oidx_0"]),
            ("cluster_1_1/xla_compile", "_XlaCompile", ["python"]),
            ("cluster_1_1/xla_run", "_XlaRun", ["python", "cluster_1_1/xla_compile"]),
            ("cluster_1_1/merge_oidx_0", "_XlaMerge", ["cluster_1_1/xla_run"]),
            ("_retval_c_0_0", "_Retval", ["cluster_1_1/merge_oidx_0"]),
        )
        ran = {
            f"cluster_{i}_1/{name}": op
            for i in range(2)
            for name, op in zip(names, ops, strict=True)
        }
        result = coverage(made_up({**ran, "python": "PyFunc"}, graphs=[executed]), graph)
        assert [row.reason for row in result] == [
            "fed",
            "in XLA cluster cluster_0",
            "in XLA cluster cluster_0",
            "measured",
            "in XLA cluster cluster_1",
        ]

    def test_ops_too_cheap_for_the_profiler(self) -> None:
        graph = graph_of(
            ("x", "Placeholder", []),
            ("cheap", "Neg", ["x"]),
            ("dear", "MatMul", ["cheap", "cheap"]),
            ("two", "Const", []),
            ("out", "Mul", ["dear", "two"]),
        )
        executed = graph_of(
            ("_arg_x_0_0", "_Arg", []),
            ("cheap", "Neg", ["_arg_x_0_0"]),
            ("dear", "MatMul", ["cheap", "cheap"]),
            ("two", "Const", []),
            ("out", "Mul", ["dear", "two"]),
            ("_retval_out_0_0", "_Retval", ["out"]),
        )
        loss = Loss(what="ops", count=2, reason="too cheap for the profiler's level")
        result = coverage(made_up({"dear": "MatMul"}, graphs=[executed], losses=(loss,)), graph)
        assert {row.name: row.state for row in result} == {
            "x": "fed",
            "cheap": "too cheap",
            "dear": "measured",
            "two": "constant",
            "out": "too cheap",
        }
        silent = coverage(made_up({"dear": "MatMul"}, graphs=[executed]), graph)
        assert silent["cheap"].state == silent["out"].state == "unknown"
        assert silent.unknown == 2 / 5

    def test_without_graphs_nothing_after_a_failure_is_called_pruned(self) -> None:
        graph = graph_of(("a", "Neg", []), ("b", "Neg", ["a"]), ("c", "Neg", ["b"]))
        failed = Status("INVALID_ARGUMENT", "b failed", (InFlight("b"),))
        found = coverage(made_up({"a": "Neg"}, status=failed), graph)
        assert [row.reason for row in found] == [
            "measured",
            "not reached: the run ended in it",
            "not reached: whether it was needed is not known",
        ]

    def test_a_function_that_failed_tells_pruned_from_not_reached(self, tensorflow: Any) -> None:
        import tensorflow as tf

        from stepscope.adapters import tensorflow as adapter

        @tf.function
        def solve(x: Any) -> Any:
            inverse = tf.linalg.inv(x, name="inv")
            tf.exp(x, name="unused")
            return tf.sin(inverse, name="after")

        concrete = solve.get_concrete_function(tf.TensorSpec([2, 2]))
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            adapter.run(concrete, tf.zeros([2, 2]), run_metadata=stepscope.RunMetadata())
        found = coverage(raised.value.run_metadata, concrete.graph)
        states = {name: found[name].state for name in ("inv", "after", "unused")}
        assert states == {"inv": "not reached", "after": "not reached", "unused": "pruned"}

    def test_ops_after_a_failure_were_not_reached(self) -> None:
        graph = graph_of(("a", "Neg", []), ("b", "Neg", ["a"]), ("c", "Neg", ["b"]))
        metadata = made_up(
            {"a": "Neg"}, graphs=[graph], status=Status("INVALID_ARGUMENT", "b failed")
        )
        assert [row.state for row in coverage(metadata, graph)] == [
            "measured",
            "not reached",
            "not reached",
        ]

    def test_what_is_no_graph_is_refused(self) -> None:
        with pytest.raises(TypeError, match=r"GraphDef or an object with as_graph_def.*not str"):
            coverage(stepscope.RunMetadata(), "graph")

    def test_unknown_names_and_states_say_so(self) -> None:
        result = coverage(stepscope.RunMetadata(), graph_of(("a", "Neg", [])))
        with pytest.raises(KeyError, match="no node 'b'"):
            result["b"]
        with pytest.raises(ValueError, match=r"state must be one of measured, .*'gone'"):
            result.where("gone")


class TestEmbeddedEngine:
    def test_every_needed_node_is_measured(self) -> None:
        import stepscope.tf1 as tf

        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32, [2, 2], name="x")
            two = tf.constant(2.0, name="two")
            four = tf.add(two, two, name="four")
            out = tf.identity(tf.multiply(tf.matmul(x, x, name="m"), four, name="p"), name="out")
            tf.exp(x, name="unasked")
            with tf.Session() as session:
                metadata = stepscope.RunMetadata()
                options = stepscope.RunOptions(trace_level=1)
                feeds = {x: np.ones((2, 2), np.float32)}
                session.run(out, feeds, options=options, run_metadata=metadata)
        result = coverage(metadata, graph)
        # A constant is put in place before the run; it may have a row of no length.
        assert {row.name: row.state.replace("constant", "measured") for row in result} == {
            "x": "fed",
            "two": "measured",
            "four": "measured",
            "m": "measured",
            "p": "measured",
            "out": "measured",
            "unasked": "pruned",
        }
        assert accounted_ns(result) == recorded_ns(metadata)


def test_ten_thousand_nodes_are_no_burden() -> None:
    graph, executed = pb.GraphDef(), pb.GraphDef()
    for i in range(10_000):
        inputs = [f"layer/node_{i - 1}", f"layer/node_{i // 2}"] if i else []
        node = graph.node.add(name=f"layer/node_{i}", op="AddV2" if i else "Const", input=inputs)
        node.attr["T"].type = 1
        if i % 10:
            executed.node.add().CopyFrom(node)
    names = {node.name: node.op for node in executed.node}
    metadata = made_up(names, graphs=[executed])
    len(metadata.ops)
    started = time.monotonic()
    result = coverage(metadata, graph)
    assert time.monotonic() - started < 30
    assert len(result) == 10_000
    assert result.counts()["measured"] == 9_000
