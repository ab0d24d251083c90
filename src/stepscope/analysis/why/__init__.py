"""Why: the causes of an op, of a run and of a byte, backwards; each link is a recorded row.

op     why it began when it did and took so long: the chain of what it waited for
run    what was different in it from others of its kind, and the chain of that
byte   who held memory at an instant, since when and until whom
"""

from stepscope.analysis.why.byte import ByteCauses, Holder, why_bytes
from stepscope.analysis.why.op import Cover, Link, OpCauses, node_named, nodes_like, why_op
from stepscope.analysis.why.run import RunCauses, why_run

__all__ = [
    "ByteCauses",
    "Cover",
    "Holder",
    "Link",
    "OpCauses",
    "RunCauses",
    "node_named",
    "nodes_like",
    "why_bytes",
    "why_op",
    "why_run",
]
