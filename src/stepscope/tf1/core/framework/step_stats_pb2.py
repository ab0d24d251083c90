"""`tensorflow.core.framework.step_stats_pb2`."""

from stepscope._messages import (
    AllocationRecord,
    AllocatorMemoryUsed,
    DeviceStepStats,
    MemoryStats,
    NodeExecStats,
    NodeOutput,
    StepStats,
)
from stepscope.tf1._absent import absent

__all__ = [
    "AllocationRecord",
    "AllocatorMemoryUsed",
    "DeviceStepStats",
    "MemoryStats",
    "NodeExecStats",
    "NodeOutput",
    "StepStats",
]

__getattr__ = absent(__name__)
