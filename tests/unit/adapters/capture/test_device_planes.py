"""Accelerators: no GPU or TPU is here, so their planes are built as the profiler writes them."""

from __future__ import annotations

import pytest

from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow.capture import profiler
from stepscope.adapters.tensorflow.capture.row_columns import LOCAL_CPU
from stepscope.export.timeline.timeline import Timeline
from stepscope.metadata import RunMetadata
from stepscope.metadata.xplane import XSpace
from stepscope.options import RunOptions


class PlaneBuilder:
    """Adds a plane to a space, line by line, event by event."""

    def __init__(self, space, name):
        self.plane = space.planes.add(name=name)
        self._events, self._stats = {}, {}

    def _id(self, table, known, name):
        if name not in known:
            known[name] = len(known) + 1
            table[known[name]].id = known[name]
            table[known[name]].name = name
        return known[name]

    def line(self, number, name, start_ns):
        return self.plane.lines.add(id=number, name=name, timestamp_ns=start_ns)

    def event(self, line, name, offset_us, duration_us, **stats):
        event = line.events.add(
            metadata_id=self._id(self.plane.event_metadata, self._events, name),
            offset_ps=offset_us * 1_000_000,
            duration_ps=duration_us * 1_000_000,
        )
        for key, value in stats.items():
            event.stats.add(
                metadata_id=self._id(self.plane.stat_metadata, self._stats, key), str_value=value
            )


def add_gpu(space, start_ns):
    gpu = PlaneBuilder(space, "/device:GPU:0")
    compute = gpu.line(14, "Stream #14(Compute)", start_ns)
    gpu.event(compute, "sgemm_128x64", 10, 40, tf_op="mm:MatMul", kernel_details="grid:1")
    gpu.event(compute, "anonymous_kernel", 60, 5)
    copies = gpu.line(15, "Stream #15(MemcpyH2D)", start_ns)
    gpu.event(copies, "MemcpyH2D", 2, 6, tf_op="x:_Arg", memcpy_details="size:64")
    derived = gpu.line(1_000_001, "TensorFlow Name Scope", start_ns)
    gpu.event(derived, "mm", 10, 40)


def add_tpu(space, start_ns):
    for core in range(2):
        tpu = PlaneBuilder(space, f"/device:TPU:{core}")
        line = tpu.line(1, "XLA Ops", start_ns)
        tpu.event(line, "fusion.3", 5, 20 + core, tf_op="layer/fused:XlaFusion")


@pytest.fixture
def with_planes(tensorflow, monkeypatch):
    """One traced run of a function, with planes of accelerators added to what was recorded."""
    tf = tensorflow
    function = tf.function(lambda x: tf.matmul(x, x))
    x = tf.ones([2, 2])
    function(x)

    def record(*adders):
        stop = profiler.SharedProfiler.stop

        def stop_and_add(self, batch):
            stop(self, batch)
            space = XSpace.FromString(batch.data)
            host = next(p for p in space.planes if p.name == "/host:CPU")
            for add in adders:
                add(space, host.lines[0].timestamp_ns)
            batch.data = space.SerializeToString()

        monkeypatch.setattr(profiler.SharedProfiler, "stop", stop_and_add)
        metadata = RunMetadata()
        options = RunOptions(trace_level=RunOptions.HARDWARE_TRACE)
        adapter.run(function, x, options=options, run_metadata=metadata)
        return metadata

    return record


def on_devices(metadata):
    ops = metadata.ops
    columns = (ops.device, ops.name, ops.op, (ops.end_ns - ops.start_ns) // 1000)
    return sorted(row for row in zip(*columns, strict=True) if "CPU" not in row[0])


def test_gpu_streams_are_devices_as_tensorflow_named_them(with_planes):
    metadata = with_planes(add_gpu)
    assert on_devices(metadata) == [
        ("/device:GPU:0/memcpy", "x", "_Arg", 6),
        ("/device:GPU:0/stream:14", "anonymous_kernel", "anonymous_kernel", 5),
        ("/device:GPU:0/stream:14", "mm", "MatMul", 40),
        ("/device:GPU:0/stream:15", "x", "_Arg", 6),
        ("/device:GPU:0/stream:all", "anonymous_kernel", "anonymous_kernel", 5),
        ("/device:GPU:0/stream:all", "mm", "MatMul", 40),
    ]
    assert "MatMul" in [
        op for op, device in zip(metadata.ops.op, metadata.ops.device, strict=True)
        if device == LOCAL_CPU
    ]  # fmt: skip


def test_each_stream_is_a_lane_with_its_name(with_planes):
    ops = with_planes(add_gpu).ops
    threads = {
        thread for thread, device in zip(ops.thread, ops.device, strict=True)
        if device == "/device:GPU:0/stream:14"
    }  # fmt: skip
    assert [ops.thread_names[t] for t in threads] == ["Stream #14(Compute)"]


def test_tpu_cores_are_devices_of_their_own(with_planes):
    assert on_devices(with_planes(add_tpu)) == [
        ("/device:TPU:0/XLA Ops", "layer/fused", "XlaFusion", 20),
        ("/device:TPU:1/XLA Ops", "layer/fused", "XlaFusion", 21),
    ]


def test_times_are_on_the_clock_of_the_run(with_planes):
    ops = with_planes(add_gpu, add_tpu).ops
    starts = ops.start_ns
    assert starts.max() - starts.min() < 60_000_000_000


def test_tensorflows_timeline_shows_the_streams(with_planes, tensorflow):
    from tensorflow.python.client import timeline

    metadata = with_planes(add_gpu)
    message = tensorflow.compat.v1.RunMetadata.FromString(metadata.SerializeToString())
    theirs = timeline.Timeline(message.step_stats).generate_chrome_trace_format()
    assert "/device:GPU:0/stream:all Compute" in theirs
    assert "/device:GPU:0/memcpy Compute" in theirs
    ours = Timeline(metadata.step_stats).generate_chrome_trace_format()
    assert "/device:GPU:0/stream:all Compute" in ours
