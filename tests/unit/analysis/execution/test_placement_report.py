"""On which device each op ran, and what moved between devices."""

from __future__ import annotations

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from analysed_runs import CPU0, CPU1, run_of
from stepscope.analysis import placement
from stepscope.metadata import Placement


def test_what_was_asked_for_against_where_it_ran():
    run = run_of(
        ("x", "Neg", [], 1, 0, 0, 1, CPU0),
        ("y", "Exp", [], 1, 0, 1, 2, CPU0),
        ("z", "Exp", [], 1, 0, 2, 3, CPU0),
        placements=lambda: [
            Placement("x", "Neg", "/cpu:0", CPU0, "asked for"),
            Placement("y", "Exp", "/gpu:0", CPU0, "no such device; soft placement"),
        ],
    )
    report = placement(run)
    assert [(r.name, r.requested, r.differs, r.reason) for r in report.rows] == [
        ("y", "/gpu:0", True, "no such device; soft placement"),
        ("x", "/cpu:0", False, "asked for"),
        ("z", "", False, "seen running there"),
    ]
    assert [row.name for row in report.different] == ["y"]
    assert report.devices == {CPU0: 3}


@pytest.mark.parametrize("asked", ["/cpu:1", "/device:CPU:1", "/job:localhost/device:cpu:1"])
def test_requests_are_understood_however_they_are_written(asked):
    run = run_of(
        ("x", "Neg", [], 1, 0, 0, 1, CPU0),
        placements=lambda: [Placement("x", "Neg", asked, CPU0, "?")],
    )
    assert placement(run).rows[0].differs


def test_transfers_of_a_real_run_on_two_devices():
    config = stepscope.ConfigProto(device_count={"CPU": 2})
    for graphs in (True, False):
        with tf.Graph().as_default(), stepscope.Session(config=config) as session:
            with tf.device("/cpu:1"):
                a = tf.constant(np.ones((100, 50), np.float32)) * 2.0
            with tf.device("/cpu:0"):
                b = tf.reduce_sum(a)
            metadata = stepscope.RunMetadata()
            options = stepscope.RunOptions(trace_level=3, output_partition_graphs=graphs)
            assert session.run(b, options=options, run_metadata=metadata) == 10000
        (moved,) = placement(metadata).transfers
        assert moved.tensor.startswith("mul")
        assert moved.source.endswith("CPU:1")
        assert moved.target.endswith("CPU:0")
        assert (moved.calls, moved.bytes) == (1, 20000)


def test_a_receive_between_tasks_tells_its_route_in_its_label():
    label = "[1.0MB] [6.1Gb/s] edge_4_w from /job:ps/task:0/device:CPU:0 to /job:worker/task:0"
    message = stepscope.RunMetadata()
    node = message.step_stats.dev_stats.add(device="/job:worker/task:0").node_stats.add()
    node.node_name, node.timeline_label = "RecvTensor", label
    node.all_start_micros, node.all_end_rel_micros = 5, 7
    (moved,) = placement(message).transfers
    assert (moved.tensor, moved.source) == ("w", "/job:ps/task:0/device:CPU:0")
    assert (moved.target, moved.ns) == ("/job:worker/task:0", 7000)


def test_several_runs_are_refused():
    with pytest.raises(ValueError, match="takes one run and was given 0"):
        placement([])
    assert placement(run_of(("x", "Neg", [], 1, 0, 0, 1, CPU1))).rows[0].assigned == CPU1
