"""The cost model: when it comes, and what it holds.

TensorFlow's cost model turns on statistics of its CPU allocator for the rest of the process, and
TensorFlow then crashes when memory from before is freed: its own sessions run in a process of their
own.
"""

from __future__ import annotations

import numpy as np
import pytest
from contract_programs import FED, on_three_devices

from stepscope.options import GraphOptions, RunOptions

pytestmark = pytest.mark.own_process("tensorflow session")


@pytest.mark.parametrize(
    ("every", "after", "expected"),
    [(0, 0, "FFFFFF"), (1, 0, "TTTTTT"), (2, 0, "FTFTFT"), (3, 2, "FFFFTF")],
)
@pytest.mark.parametrize("level", [RunOptions.NO_TRACE, RunOptions.FULL_TRACE])
def test_the_cost_graph_comes_on_tensorflow_s_schedule(
    session_engine, every, after, expected, level
):
    engine = session_engine
    config = engine.config(
        graph_options=GraphOptions(build_cost_model=every, build_cost_model_after=after)
    )
    config.allow_soft_placement = True
    program = engine.start(on_three_devices, config)
    found = ""
    for _ in expected:
        metadata = program.traced("z", FED, trace_level=level)
        found += "T" if len(metadata.cost_graph.node) else "F"
    assert found == expected


def test_the_cost_graph_has_measured_times_sizes_and_shapes(session_engine):
    engine = session_engine

    def build(ops):
        import time

        x = ops.placeholder(ops.float32, [2, 3], name="x")
        slow = ops.py_func(lambda v: time.sleep(0.02) or v, [x], ops.float32, name="slow")
        slow.set_shape([2, 3])
        return {"x": x, "y": ops.add(slow, 1.0, name="y")}

    program = engine.start(build, engine.config(graph_options=GraphOptions(build_cost_model=1)))
    metadata = program.traced("y", {"x": np.ones((2, 3), np.float32)}, trace_level=0)
    nodes = {n.name: n for n in metadata.cost_graph.node}
    assert 20_000 <= nodes["slow"].compute_cost < 10_000_000
    assert nodes["y"].compute_cost < nodes["slow"].compute_cost
    assert nodes["y"].output_info[0].size == 24
    assert [d.size for d in nodes["y"].output_info[0].shape.dim] == [2, 3]
    by_id = {n.id: n.name for n in metadata.cost_graph.node}
    assert by_id[nodes["y"].input_info[0].preceding_node] == "slow"
    assert nodes["y"].device.endswith("CPU:0")


def test_each_kind_of_run_is_counted_by_itself_whatever_holds_its_fetches(session_engine):
    engine = session_engine
    program = engine.start(
        on_three_devices,
        engine.config(allow_soft_placement=True, graph_options=GraphOptions(build_cost_model=2)),
    )

    def has_costs(fetches):
        return bool(len(program.traced(fetches, FED).cost_graph.node))

    assert [has_costs("y"), has_costs("z"), has_costs("y"), has_costs("z")] == [
        False, False, True, True,
    ]  # fmt: skip
    assert [has_costs(["y", "z"]), has_costs(["y", "z"])] == [False, True]
