"""TensorFlow's profiles (XSpace): one parser, and what executor events mean.

`Space` reads the bytes, whatever is wrong with them; `ExecutionTrace` says what was executed.
"""

from stepscope.metadata.xplane.event_names import (
    MARK,
    PROCESS_EVENT,
    PYTHON_OP,
    SPAN,
    escaped,
    named,
)
from stepscope.metadata.xplane.liveness import lowered_nodes, silent_op
from stepscope.metadata.xplane.messages import XSpace
from stepscope.metadata.xplane.shapes import Described, input_tensors
from stepscope.metadata.xplane.space import (
    CLOCK,
    CLOCK_STAT,
    CPU,
    DEVICE_STAT,
    ENVIRONMENT,
    HOST,
    START_TIME,
    EventLine,
    Plane,
    Space,
)
from stepscope.metadata.xplane.steps import (
    ANNOTATION,
    COMPILED,
    FIRST_NODE,
    FOLDING_STEP,
    NO_NODES,
    ExecutorStep,
    ExecutorSteps,
    Row,
)
from stepscope.metadata.xplane.trace import ExecutionTrace, op_types

__all__ = [
    "ANNOTATION",
    "CLOCK",
    "CLOCK_STAT",
    "COMPILED",
    "CPU",
    "DEVICE_STAT",
    "ENVIRONMENT",
    "FIRST_NODE",
    "FOLDING_STEP",
    "HOST",
    "MARK",
    "NO_NODES",
    "PROCESS_EVENT",
    "PYTHON_OP",
    "SPAN",
    "START_TIME",
    "Described",
    "EventLine",
    "ExecutionTrace",
    "ExecutorStep",
    "ExecutorSteps",
    "Plane",
    "Row",
    "Space",
    "XSpace",
    "escaped",
    "input_tensors",
    "lowered_nodes",
    "named",
    "op_types",
    "silent_op",
]
