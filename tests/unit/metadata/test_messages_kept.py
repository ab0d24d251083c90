"""The classes of messages that no generated code keeps, with the oldest protobuf as well."""

import gc
import subprocess
import sys
import textwrap

from stepscope import _messages as pb
from stepscope.metadata.xplane import messages

NESTED = """
    import gc
    from stepscope import _messages as pb

    made = pb.RunMetadataMessage()
    made.out_of_memory.request.op = "dense/MatMul"
    made.out_of_memory.rows.add(op="x", bytes=12)
    made.function_graphs.add().post_optimization_graph.node.add(name="n")
    gc.collect()
    read = pb.RunMetadataMessage.FromString(made.SerializeToString())
    print(read.out_of_memory.request.op, read.out_of_memory.rows[0].bytes)
"""


def test_a_message_inside_another_can_be_read_and_written():
    """In a process of its own: protobuf before 4.25 ended it with a segmentation fault."""
    command = [sys.executable, "-c", textwrap.dedent(NESTED)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "dense/MatMul 12\n"), done.stderr


def test_every_class_is_kept_nested_ones_too():
    gc.collect()
    for module, names in (
        (pb, {"stepscope.OutOfMemory", "stepscope.MemoryRequest", "stepscope.Growth",
              "stepscope.RunMetadata.FunctionGraphs", "stepscope.ConfigProto.Experimental"}),
        (messages, {"stepscope.profiler.XPlane", "stepscope.profiler.XStat",
                    "stepscope.profiler.XPlane.EventMetadataEntry"}),
    ):  # fmt: skip
        assert names <= set(module._CLASSES)
        assert all(kept is kept.DESCRIPTOR._concrete_class for kept in module._CLASSES.values())
