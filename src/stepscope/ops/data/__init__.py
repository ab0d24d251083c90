"""tf.data: datasets and iterators, as op types. `stages` says how they work."""

from stepscope.ops.data import (
    asynchronous,
    files,
    functional,
    iterators,
    sources,
    transformations,
)

__all__ = ["asynchronous", "files", "functional", "iterators", "sources", "transformations"]
