"""`tf.queue`."""

from stepscope.ops.state.queues import (
    FIFOQueue,
    QueueBase,
    RandomShuffleQueue,
)
from stepscope.tf1._absent import absent

__all__ = [
    "FIFOQueue", "QueueBase", "RandomShuffleQueue",
]  # fmt: skip

__getattr__ = absent(__name__)
