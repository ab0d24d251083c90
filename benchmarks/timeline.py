"""Timelines beside TensorFlow's, and traces of a million ops."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Result, alternate, at_least, at_most
from stepscope.export import Timeline, chrome, merge
from stepscope.export.timeline import label_table
from stepscope.metadata import OpColumns, Recording, RunMetadata, StringColumn, TensorColumns

NODES = 10_000
MILLION = 1_000_000


def traced(tf: Any, build: Callable[[Any], Any]) -> Any:
    """A run of TensorFlow's, of the graph that `build` makes of a placeholder."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [4], name="x")
        result = build(x)
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE)
    with tf.Session(graph=graph, config=config) as session:
        for _ in range(2):
            feed = {x: np.full(4, 0.5, np.float32)}
            session.run(result, feed, options=options, run_metadata=metadata)
    return metadata


def chain(x: Any) -> Any:
    """Every node uses the one before: few tensors are alive at a time."""
    return chain_of(x, NODES)[-1]


def forward_and_backward(x: Any) -> Any:
    """A chain, and a chain back that uses all of it, as training does."""
    forward = chain_of(x, NODES // 2)
    back = forward[-1]
    for value in reversed(forward[1:]):
        back = back * value
    return back


def chain_of(x: Any, nodes: int) -> list[Any]:
    values = [x]
    for i in range(nodes):
        values.append(values[-1] * x if i % 2 else values[-1] + x)
    return values


def timelines(tf: Any) -> Iterator[Result]:
    """`generate_chrome_trace_format`, per node, from TensorFlow's message and from our columns."""
    yield from _timelines(tf, "Timeline", forward_and_backward, 60.0)
    # TensorFlow's time grows with the tensors alive at once, of which a chain has next to none.
    yield from _timelines(tf, "Timeline of a plain chain", chain, None)


def _timelines(
    tf: Any, title: str, build: Callable[[Any], Any], memory_limit: float | None
) -> Iterator[Result]:
    from tensorflow.python.client import timeline

    message = traced(tf, build)
    stats = message.step_stats
    nodes = sum(len(device.node_stats) for device in stats.dev_stats)
    columns = RunMetadata.FromString(message.SerializeToString()).ops
    ours = RunMetadata()
    ours.record(Recording(engine="embedded", ops=lambda: columns))

    def side(make: Callable[[Any], Any], source: Any, **options: bool) -> Callable[[], object]:
        return lambda: make(source).generate_chrome_trace_format(**options)

    def first_time() -> object:
        label_table._shared = label_table.LabelTable()
        return Timeline(stats).generate_chrome_trace_format()

    for memory, limits in ((False, (15.0, 30.0)), (True, (None, memory_limit))):
        sides = [
            side(timeline.Timeline, stats, show_memory=memory),
            side(Timeline, stats, show_memory=memory),
            side(Timeline, ours, show_memory=memory),
            *([] if memory else [first_time]),
        ]
        samples = alternate(*sides, rounds=3 if memory else 9, warmup=1)
        theirs, *mine = (statistics.median(figures) / nodes for figures in samples)
        what = f"{title} with memory" if memory else title
        names = ("from TensorFlow's message", "from our columns", "the first of a graph")
        for name, spent, limit in zip(names, mine, (*limits, None), strict=False):
            ratio = theirs / spent
            target, met = ("", None) if limit is None else at_least(limit, ratio)
            yield Result(f"{what}, {name}, per node", spent / 1e3, theirs / 1e3, ratio, target, met,
                         unit="us", note="the ratio is how many times faster")  # fmt: skip


def synthetic(rows: int, at: int = 0, nodes: int = 1000) -> RunMetadata:
    """A run of so many ops on four threads and two devices, with outputs and inputs."""
    random = np.random.default_rng(rows)
    thread = random.integers(1, 5, rows)
    spent = random.integers(200, 5000, rows)
    start = np.empty(rows, np.int64)
    for one in range(1, 5):
        lasting = spent[thread == one] + 50
        start[thread == one] = 1_794_784_521_809_562_390 + at + np.cumsum(lasting) - lasting
    order = np.argsort(start)
    thread, start, spent = thread[order], start[order], spent[order]
    code = (np.arange(rows) % nodes).astype(np.int32)
    types = ("MatMul", "Add", "Relu", "Mul", "Const")
    names = tuple(f"layer_{i % 50}/block_{i}/{types[i % 5]}" for i in range(nodes))
    labels = tuple(f"{n} = {types[i % 5]}({names[i - 1]}, {names[i - 7]})" for i, n in
                   enumerate(names))  # fmt: skip
    shapes = np.empty(4, object)
    shapes[:] = [(32, 64), (64,), (128, 128), ()]
    devices = tuple(f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(2))
    tensors = TensorColumns.build(
        op_index=np.arange(rows), slot=np.zeros(rows), dtype=np.ones(rows),
        shape=shapes[np.arange(rows) % 4], bytes=np.full(rows, 8192),
    )  # fmt: skip
    ops = OpColumns.build(
        name=StringColumn(code, names), op=StringColumn(code % 5, types),
        device=StringColumn(code % 2, devices), label=StringColumn(code, labels), thread=thread,
        scheduled_ns=start - 120, start_ns=start, end_ns=start + spent, tensors=tensors,
        thread_names={i: f"pool-{i}" for i in range(1, 5)},
    )  # fmt: skip
    metadata = RunMetadata()
    metadata.record(Recording(engine="embedded", ops=lambda: ops))
    return metadata


class PeakMemory:
    """The most memory of the process while a block lasts, over what it had before, in MB."""

    def __enter__(self) -> PeakMemory:
        self._before = self.mb = self._now()
        self._watching = True
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watching = False
        self._thread.join()
        self.mb = max(self.mb, self._now()) - self._before

    def _watch(self) -> None:
        while self._watching:
            self.mb = max(self.mb, self._now())
            time.sleep(0.005)

    @staticmethod
    def _now() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def traces(_tf: Any) -> Iterator[Result]:
    """A million ops as a trace, with arrows and without; a thousand runs of a thousand as one."""
    million = synthetic(MILLION)
    million.ops.output_bytes  # noqa: B018 - part of the input
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trace.json"
        for what, options in (("", {}), (" without arrows", {"show_dataflow": False})):
            yield from _written(f"trace of 1,000,000 ops{what}",
                                lambda o=options: chrome(million, path, **o), path)  # fmt: skip
        runs = [lambda i=i: synthetic(1000, 3_000_000 * i) for i in range(1000)]
        yield from _written("1,000 runs of 1,000 ops merged, made anew at each look",
                            lambda: merge(runs, path), path, rate=None)  # fmt: skip


def _written(
    what: str, write: Callable[[], object], path: Path, rate: float | None = 500_000
) -> Iterator[Result]:
    with PeakMemory() as peak:
        begun = time.perf_counter()
        write()
        spent = time.perf_counter() - begun
    with path.open("rb") as file:
        events = sum(line.startswith(b'{"ph":') for line in file)
    target, met = ("", None) if rate is None else at_least(rate, events / spent)
    yield Result(f"{what}: events, seconds, events a second", events, spent, events / spent, target,
                 met, unit="")  # fmt: skip
    target, met = at_most(300, peak.mb)
    yield Result(f"{what}: MB written, MB of memory over the input", path.stat().st_size / 1e6,
                 peak.mb, peak.mb, target, met, unit="")  # fmt: skip


GROUPS = (timelines, traces)
