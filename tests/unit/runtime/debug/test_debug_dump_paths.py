"""Debug dumps of nodes whose names are paths: every file stays below the root."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from stepscope import errors
from stepscope._messages import Event
from stepscope.runtime.debug.dump_files import DumpDirectory, device_directory, tensor_file
from stepscope.runtime.debug.ops import WatchedTensor

LONG = "x" * 4000


def dump(root: Path, name: str) -> None:
    """Run a node of this name with its output watched."""
    graph = tf.Graph()
    with graph.as_default(), tf.Session() as session:
        node = tf.identity(tf.constant([1.0, 2.0]), name=f"{name}/" if "/" in name else name)
        options = stepscope.RunOptions()
        options.debug_options.debug_tensor_watch_opts.add(
            node_name=node.op.name, output_slot=0, debug_ops=["DebugIdentity"],
            debug_urls=[f"file://{root}"],
        )  # fmt: skip
        session.run(node, options=options)


def tensors(root: Path) -> list[Path]:
    return [f for f in root.rglob("*DebugIdentity*") if f.is_file()]


@pytest.mark.parametrize(
    "name",
    [
        "../../x", "../../../../x", "a/../../../x", "./x", "a//b", "a/./b", "..", "...",
        LONG, f"a/{LONG}/b",
    ],
)  # fmt: skip
def test_no_dump_leaves_its_directory(name, tmp_path):
    root = tmp_path / "some" / "where" / "dumps"
    dump(root, name)
    (file,) = tensors(tmp_path)
    assert file.is_relative_to(root)
    (value,) = Event.FromString(file.read_bytes()).summary.value
    assert value.node_name == f"{name}:0:DebugIdentity"
    assert np.frombuffer(value.tensor.tensor_content, np.float32).tolist() == [1.0, 2.0]
    assert [p.name for p in tmp_path.iterdir()] == ["some"]


def test_ordinary_names_stand_as_tensorflow_writes_them(tmp_path):
    dump(tmp_path, "tower/v1.5/mul")
    (file,) = tensors(tmp_path)
    device = "_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0"
    assert str(file.relative_to(tmp_path)).startswith(f"{device}/tower/v1.5/mul_0_DebugIdentity_")


def test_a_link_that_leads_out_is_not_followed(tmp_path):
    root, outside = tmp_path / "dumps", tmp_path / "outside"
    outside.mkdir()
    device = root / device_directory("/job:localhost/replica:0/task:0/device:CPU:0")
    device.mkdir(parents=True)
    (device / "tower").symlink_to(outside)
    with pytest.raises(errors.InternalError, match="leads out of it"):
        dump(root, "tower/mul")
    assert list(outside.iterdir()) == []


def test_a_root_that_is_a_link_itself_is_where_the_user_wants_it(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "dumps").symlink_to(tmp_path / "disk")
    dump(tmp_path / "dumps", "tower/mul")
    assert len(tensors(tmp_path / "disk")) == 1


@pytest.mark.parametrize("name", ["/{tmp}/x", "a\0b/c\0d", "\0", "../..", "", "/"])
def test_names_that_no_graph_has_stay_inside_as_well(name, tmp_path):
    name = name.replace("/{tmp}", str(tmp_path))
    value = np.ones(1, np.float32)
    observed = WatchedTensor(tf.float32, (1,), value)
    DumpDirectory(str(tmp_path / "in")).publish_tensor(
        "/device:\0:0/" + LONG, name, 0, "DebugIdentity", observed, 1
    )
    (file,) = tensors(tmp_path)
    assert file.is_relative_to(tmp_path / "in")


def test_long_names_that_differ_at_their_end_are_two_files():
    assert tensor_file(LONG + "a", "_0_D") != tensor_file(LONG + "b", "_0_D")
