"""One logged run in a process of its own, before a library that was compiled is kept.

A library that does not fit may end the process that loads it or that runs a step with it. So
`build` starts a process which does both, and looks how it ended.
"""

from __future__ import annotations

import sys

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.node_log import build
from stepscope.adapters.tensorflow.node_log.log import NodeLog


def main(path: str, kind: str) -> None:
    """Log a run with the library at `path`, as executor type `kind`; exits with 1 if that fails."""
    v1 = versions.tensorflow().compat.v1  # before the library, which finds its own in the process
    build.try_out(path, kind)
    graph = v1.Graph()
    with graph.as_default():
        x = v1.placeholder(v1.float32, [2], name="x")
        y = v1.add(x, x, name="y")
    config = v1.ConfigProto()
    config.experimental.executor_type = kind
    with v1.Session(graph=graph, config=config) as session:
        log = NodeLog(outputs=True)
        log.enter()
        try:
            value = session.run(y, {x: [1.0, 2.0]}).tolist()
        finally:
            log.leave()
        nodes = log.read()
        log.release()
    done = sorted(nodes.done) if nodes is not None else []
    if value != [2.0, 4.0] or "y" not in done:
        sys.exit(f"logged {done} of a run of y = x + x, which gave {value}")
