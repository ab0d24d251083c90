"""The profiler's events of a host, built one by one as TensorFlow writes them."""

from __future__ import annotations

from stepscope.adapters.tensorflow.capture.events import Profile
from stepscope.metadata.xplane import XSpace

BASE = 1_700_000_000_000_000_000
DONE = "ExecutorPropagateOutputs"
STEP = 7


class Host:
    """Builds the plane of a host's threads; times are in nanoseconds from the start."""

    def __init__(self):
        self.space = XSpace()
        self.plane = self.space.planes.add(name="/host:CPU")
        self._event_numbers, self._stat_numbers = {}, {}

    def thread(self, *events, name="thread"):
        line = self.plane.lines.add(name=f"{name}/{len(self.plane.lines)}", timestamp_ns=BASE)
        for name, start, end, stats in events:
            event = line.events.add(
                metadata_id=self._event(name),
                offset_ps=start * 1000,
                duration_ps=(end - start) * 1000,
            )
            for key, value in stats.items():
                if isinstance(value, int):
                    event.stats.add(metadata_id=self._stat(key), int64_value=value)
                elif value.startswith("="):
                    event.stats.add(metadata_id=self._stat(key), str_value=value[1:])
                else:
                    event.stats.add(metadata_id=self._stat(key), ref_value=self._stat(value))
        return self

    def _event(self, name):
        number = self._event_numbers.setdefault(name, 1 + len(self._event_numbers))
        self.plane.event_metadata[number].name = name
        return number

    def _stat(self, name):
        number = self._stat_numbers.setdefault(name, 200 + len(self._stat_numbers))
        self.plane.stat_metadata[number].name = name
        return number

    def read(self):
        profile = Profile(self.space.SerializeToString())
        rows = profile.rows_of(list(profile.steps))
        return profile, sorted((r.name, r.op, r.start_ns - BASE, r.end_ns - BASE) for r in rows)


def process(start, end, step=STEP):
    return "ExecutorState::Process", start, end, {"id": step, "iter_num": 0}


def done(node, at, step=STEP):
    return DONE, at, at + 1, {"id": step, "kernel_name": node, "num_output_edges": 1}


def kernel(name, start, end, **stats):
    return name, start, end, stats
