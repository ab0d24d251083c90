"""Names of `stepscope.metadata.xplane`, for the files that had them from here."""

from stepscope.metadata.xplane import lowered_nodes, silent_op

__all__ = ["lowered_nodes", "silent_op"]
