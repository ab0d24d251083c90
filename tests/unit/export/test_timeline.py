"""The drop-in Timeline against TensorFlow's own, event by event."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tensorboard.compat.proto import config_pb2, step_stats_pb2

from shared_data import ARTEFACTS
from stepscope.export import Timeline
from stepscope.export.timeline import label_table
from stepscope.metadata import Recording, RunMetadata

DATA = Path(__file__).parents[2] / "data"
RECORDED = sorted(
    {
        **{path.parent.name: path for path in ARTEFACTS.glob("*/run_metadata.pb")},
        **{path.parent.name: path for path in DATA.glob("*/run_metadata.pb")},
    }.items()
)
FILES = pytest.mark.parametrize(
    "path", [path for _, path in RECORDED], ids=[n for n, _ in RECORDED]
)
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def events(text):
    """The events of a trace, in an order of their own: the format knows none."""
    return sorted(json.loads(text)["traceEvents"], key=lambda e: json.dumps(e, sort_keys=True))


def theirs(tf, step_stats, **options):
    """TensorFlow's events; it writes lanes into what it is given, so it gets a copy."""
    from tensorflow.python.client import timeline

    own = tf.compat.v1.RunMetadata.FromString(
        config_pb2.RunMetadata(step_stats=step_stats).SerializeToString()
    )
    return events(timeline.Timeline(own.step_stats).generate_chrome_trace_format(**options))


def gpu_step_stats():
    """A node on a GPU whose kernels run later, on the streams' own entries."""
    stats = step_stats_pb2.StepStats()
    job = stats.dev_stats.add(device="/job:localhost/replica:0/task:0/device:GPU:0")
    job.node_stats.add(
        node_name="mm",
        timeline_label="mm = MatMul(a, b/_3)",
        all_start_micros=100,
        all_end_rel_micros=10,
    )
    job.node_stats.add(
        node_name="b", timeline_label="b = Const()", all_start_micros=90, all_end_rel_micros=5
    ).output.add().tensor_description.allocation_description.requested_bytes = 64
    job.node_stats.add(
        node_name="idle", timeline_label="idle = NoOp()", all_start_micros=130, all_end_rel_micros=1
    )
    stream = stats.dev_stats.add(device="/device:GPU:0/stream:all")
    for start, label in (
        (120, "sgemm @@mm:MatMul#id=1"),
        (150, "bias"),
        (140, "sgemm @@mm:MatMul#id=2"),
    ):
        stream.node_stats.add(
            node_name="b:BiasAdd",
            timeline_label=label,
            all_start_micros=start,
            all_end_rel_micros=7,
        )
    memcpy = stats.dev_stats.add(device="/device:GPU:0/memcpy")
    memcpy.node_stats.add(node_name="edge", all_start_micros=99, all_end_rel_micros=1)
    return stats


@FILES
@pytest.mark.parametrize("show_dataflow", [True, False])
@pytest.mark.parametrize("show_memory", [True, False])
@pytest.mark.parametrize("op_time", ["schedule", "gpu", "all"])
def test_recorded_runs_give_tensorflows_events(tf, path, show_dataflow, show_memory, op_time):
    options = {"show_dataflow": show_dataflow, "show_memory": show_memory, "op_time": op_time}
    stats = config_pb2.RunMetadata.FromString(path.read_bytes()).step_stats
    ours = events(Timeline(stats).generate_chrome_trace_format(**options))
    assert ours == theirs(tf, stats, **options)
    assert sum(event["ph"] == "X" for event in ours) == sum(
        len(device.node_stats) for device in stats.dev_stats
    )


@pytest.mark.parametrize(
    "recorded",
    sorted(ARTEFACTS.glob("*/timeline_*.json")),
    ids=lambda p: "-".join(Path(str(p)).with_suffix("").parts[-2:]),
)
def test_recorded_runs_give_the_recorded_timelines(recorded):
    data = recorded.with_name("run_metadata.pb").read_bytes()
    text = Timeline(config_pb2.RunMetadata.FromString(data)).generate_chrome_trace_format(
        show_memory=recorded.stem == "timeline_mem"
    )
    assert events(text) == events(recorded.read_text())


@pytest.mark.parametrize("op_time", ["schedule", "gpu", "all"])
def test_gpu_kernels(tf, op_time):
    stats = gpu_step_stats()
    ours = events(Timeline(stats).generate_chrome_trace_format(op_time=op_time))
    assert ours == theirs(tf, stats, op_time=op_time)
    matmul = next(e for e in ours if e["ph"] == "X" and e["args"]["name"] == "mm" and e["pid"] == 1)
    assert (matmul["ts"], matmul["dur"]) == {
        "schedule": (100, 10),
        "gpu": (120, 27),
        "all": (100, 47),
    }[op_time]


@FILES
def test_allocator_maximums_are_tensorflows(tf, path):
    from tensorflow.python.client import timeline

    data = path.read_bytes()
    original = timeline.Timeline(tf.compat.v1.RunMetadata.FromString(data).step_stats)
    theirs = original.analyze_step_stats().allocator_maximums
    analysis = Timeline(config_pb2.RunMetadata.FromString(data)).analyze_step_stats()
    ours = analysis.allocator_maximums
    assert {name: tuple(most) for name, most in ours.items()} == {
        name: tuple(most) for name, most in theirs.items()
    }


def test_allocator_maximum_of_one_tensor():
    stats = step_stats_pb2.StepStats()
    node = stats.dev_stats.add(device=CPU).node_stats.add(
        node_name="w", timeline_label="w = Const()", all_start_micros=7, all_end_rel_micros=2
    )
    allocation = node.output.add().tensor_description.allocation_description
    allocation.allocator_name, allocation.requested_bytes = "cpu", 4096
    analysis = Timeline(stats).analyze_step_stats()
    peak = analysis.allocator_maximums["cpu"]
    assert (peak.timestamp, peak.num_bytes, peak.tensors) == (7, 4096, {"w"})
    counted = [event for event in analysis.chrome_trace.events if event["ph"] == "C"]
    assert [(event["ts"], event["args"]["cpu"]) for event in counted] == [(7, 4096), (9, 0)]


def test_many_inputs_are_all_named(tf):
    stats = step_stats_pb2.StepStats()
    inputs = ", ".join(f"x{i}" for i in range(70))
    stats.dev_stats.add(device=CPU).node_stats.add(
        node_name="sum", timeline_label=f"sum = AddN({inputs})", all_start_micros=1
    )
    (op,) = [e for e in events(Timeline(stats).generate_chrome_trace_format()) if e["ph"] == "X"]
    assert op["args"]["input69"] == "x69"
    assert op in theirs(tf, stats)


def test_a_real_session(tf):
    v1 = tf.compat.v1
    with (
        v1.Graph().as_default(),
        v1.Session(config=v1.ConfigProto(device_count={"CPU": 2})) as session,
    ):
        with v1.device("/cpu:1"):
            left = v1.random_uniform([16, 16], name="left")
        total = v1.reduce_sum(v1.matmul(left, left, name="mm"), name="total")
        metadata = v1.RunMetadata()
        session.run(
            total,
            options=v1.RunOptions(trace_level=v1.RunOptions.SOFTWARE_TRACE),
            run_metadata=metadata,
        )
    ours = events(Timeline(metadata.step_stats).generate_chrome_trace_format(show_memory=True))
    assert ours == theirs_of_message(metadata)
    assert {"mm", "total"} <= {event["args"]["name"] for event in ours if event["ph"] == "X"}


def theirs_of_message(metadata):
    from tensorflow.python.client import timeline

    text = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format(show_memory=True)
    return events(text)


def test_asking_twice_gives_the_same_and_changes_nothing():
    stats = gpu_step_stats()
    before = stats.SerializeToString(deterministic=True)
    timeline = Timeline(stats)
    first = timeline.generate_chrome_trace_format(show_memory=True, op_time="all")
    assert timeline.generate_chrome_trace_format(show_memory=True, op_time="all") == first
    assert len(events(timeline.generate_chrome_trace_format(show_memory=True))) == len(
        events(first)
    )
    assert stats.SerializeToString(deterministic=True) == before


def test_the_formatter_is_tensorflows():
    trace = Timeline(gpu_step_stats()).analyze_step_stats().chrome_trace
    assert json.loads(trace.format_to_string(pretty=True)) == json.loads(trace.format_to_string())
    assert "\n" in trace.format_to_string(pretty=True)
    assert "\n" not in trace.format_to_string()


@pytest.mark.parametrize("kind", [config_pb2.RunMetadata, RunMetadata])
def test_run_metadata_is_taken_for_its_step_stats(kind):
    message = config_pb2.RunMetadata(step_stats=gpu_step_stats())
    metadata = kind.FromString(message.SerializeToString())
    text = Timeline(gpu_step_stats()).generate_chrome_trace_format()
    assert Timeline(metadata).generate_chrome_trace_format() == text
    assert Timeline(metadata.step_stats).generate_chrome_trace_format() == text


@pytest.mark.parametrize(
    "wrong", [None, {}, b"bytes", step_stats_pb2.StepStats, config_pb2.RunOptions()]
)
def test_anything_else_is_refused(wrong):
    with pytest.raises(TypeError, match=r"run_metadata\.step_stats.*, not "):
        Timeline(wrong)


@FILES
@pytest.mark.parametrize("show_memory", [True, False])
def test_columns_give_what_the_message_made_of_them_gives(path, show_memory):
    columns = RunMetadata.FromString(path.read_bytes()).ops
    recorded = RunMetadata()
    recorded.record(Recording(engine="embedded", ops=lambda: columns))
    ours = Timeline(recorded).generate_chrome_trace_format(show_memory=show_memory)
    message = Timeline(recorded.step_stats).generate_chrome_trace_format(show_memory=show_memory)
    assert events(ours) == events(message)
    assert Timeline(recorded).analyze_step_stats().allocator_maximums == (
        Timeline(recorded.step_stats).analyze_step_stats().allocator_maximums
    )


@pytest.mark.parametrize("show_memory", [True, False])
def test_odd_names_and_labels(tf, show_memory):
    odd = 'a"b\\c\td é漢'
    stats = step_stats_pb2.StepStats()
    device = stats.dev_stats.add(device=odd)
    for start, label in enumerate(
        (
            f"{odd} = Op({odd}, {odd}:1)", "", "x = y = Op(a (b), c)", "[cpu 1MB] n = Op(a)",
            "n = Op(a, b) and more", "a\nb = Op(c)", "n = (a)", "n = Op(a, b, c, d)", "n = Op()",
        )
    ):  # fmt: skip
        node = device.node_stats.add(
            node_name=odd if start % 2 else "c",
            timeline_label=label,
            all_start_micros=start,
            all_end_rel_micros=3,
        )
        for slot in range(start % 3):
            described = node.output.add(slot=slot).tensor_description
            described.dtype = start % 4
            described.allocation_description.ptr = start << 40
            described.allocation_description.allocator_name = odd
    options = {"show_memory": show_memory}
    ours = events(Timeline(stats).generate_chrome_trace_format(**options))
    assert ours == theirs(tf, stats, **options)


def test_more_labels_than_are_kept(monkeypatch):
    texts = []
    for limit in (100, 1):
        monkeypatch.setattr(label_table, "LIMIT", limit)
        texts += [Timeline(gpu_step_stats()).generate_chrome_trace_format() for _ in range(3)]
    assert len(set(texts)) == 1


def test_an_unknown_op_time_is_refused():
    with pytest.raises(ValueError, match="schedule, gpu, all; it was 'cpu'"):
        Timeline(gpu_step_stats()).analyze_step_stats(op_time="cpu")
