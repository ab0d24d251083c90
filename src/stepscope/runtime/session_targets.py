"""Session targets: who runs a session whose graph is ours and whose engine is not.

The embedded engine serves "". Adapters serve what they name, a target such as "tensorflow" or
whatever begins with "grpc://": a function that is given the target, the graph, the configuration,
and a way from a `PyFunc` token to its function. It returns an engine with `run(tensors, targets,
feeds, options, run_metadata)` (names in, the tensors' values out, under the contract),
`list_devices()`, `reset(containers)` and `close()`.
"""

from __future__ import annotations

from typing import Any

from stepscope import engines
from stepscope.errors import InvalidArgumentError, UnimplementedError
from stepscope.graph import Graph
from stepscope.ops.python_functions import function_of_token


def engine_for(target: str, graph: Graph, config: Any) -> Any:
    """The engine that serves a target, or None for the embedded one.

    UnimplementedError naming the target and what there is, where nobody serves it.
    """
    if not isinstance(target, str):
        raise TypeError(f"target must be a string, not {type(target).__name__}.")
    if target == "":
        return None
    known = engines.session_targets()
    for name, serve in known.items():
        if target == name or (name.endswith("://") and target.startswith(name)):
            if target.endswith("://"):
                raise InvalidArgumentError.without_op(
                    f"The session target {target!r} names no server: {target}host:port."
                )
            return serve(target, graph, config, function_of_token)
    listed = ", ".join(repr(n + "..." if n.endswith("://") else n) for n in sorted(known))
    raise UnimplementedError.without_op(
        f"No engine serves the session target {target!r}; there are: '' (the embedded engine)"
        f"{', ' + listed if listed else ''}.",
    )
