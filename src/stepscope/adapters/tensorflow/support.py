"""What TensorFlow's engines do with each field of RunOptions: checked before a run, and the source
of the support table.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

from stepscope.adapters.tensorflow.failures import new_error
from stepscope.metadata import Loss
from stepscope.options import DEFAULT_RESOLVED, TRACED_ALONE, ResolvedRunOptions

DONE: Final = "yes"
REFUSED: Final = "refused"
SESSION: Final = "tensorflow session"
FUNCTION: Final = "tensorflow function"
EAGER: Final = "tensorflow eager"
CLUSTER: Final = "tensorflow cluster"
step_ids: Final = itertools.count(1)
"""Numbers of runs, whichever of these engines runs them: none is another's in this process."""

_DEBUG_URLS: Final = ("file://", "grpc://", "memcbk://")
_WATCH: Final = "debug_options.debug_tensor_watch_opts."
_REPORT: Final = (
    DONE,
    "From the allocator's events where memory events are on, else from what ops put out.",
)
_LOG: Final = (DONE, "The events are as those of the out-of-memory report.")
_FULL: Final = (
    "FULL: tensor descriptions and memory as well; without the allocator's events, memory is told "
    "by what ops put out, which `completeness` says."
)
_NO_EXECUTOR: Final = "There is no session whose executor could be told."

_ANYWHERE: Final[dict[str, tuple[str, str]]] = {
    "report_tensor_allocations_upon_oom": _REPORT,
    "allocation_log_buffer_size": _LOG,
    "allocation_log_sampling_rate": _LOG,
    "allocation_log_address": _LOG,
}
_SESSION: Final[dict[str, tuple[str, str]]] = {
    "trace_level": (
        DONE,
        "From our own executor where there is one; else from the profiler, or from TensorFlow's "
        "own step stats where they cost less (SOFTWARE, from the second run on) or the program "
        "profiles itself. " + _FULL,
    ),
    "timeout_in_ms": (
        DONE,
        "Control comes back at the deadline; ops in flight are cancelled or abandoned. With "
        "`inter_op_thread_pool=-1` they are waited for, and those after them still run. Without a "
        "trace only Python ops are named; that others are not `completeness` says.",
    ),
    "inter_op_thread_pool": (DONE, "TensorFlow's own. -1 is the caller's thread."),
    "output_partition_graphs": (
        DONE,
        "TensorFlow's own; of a run that failed there are none, which `completeness` says.",
    ),
    f"{_WATCH}node_name": (DONE, "An unknown node is an error."),
    f"{_WATCH}output_slot": (DONE, "An unknown slot is an error."),
    f"{_WATCH}debug_ops": (DONE, "TensorFlow's own."),
    f"{_WATCH}debug_urls": (DONE, "`file://`, `grpc://` and `memcbk://`, TensorFlow's own."),
    f"{_WATCH}tolerate_debug_op_creation_failures": (DONE, "TensorFlow's own."),
    "debug_options.global_step": (
        DONE,
        "TensorFlow's own. No effect without watches; `completeness` says so.",
    ),
    "debug_options.reset_disk_byte_usage": (
        DONE,
        "TensorFlow's own, which takes it from the first run with these watches and fetches in a "
        "session; `completeness` says where it has no effect.",
    ),
    "experimental.collective_graph_key": (
        DONE,
        "TensorFlow's own. Collectives of one session also run without it.",
    ),
    "experimental.use_run_handler_pool": (
        DONE,
        "TensorFlow's own. No effect with `use_per_session_threads`, in a pool of the session's "
        "own other than 0, and on the caller's thread; `completeness` says so.",
    ),
    "experimental.run_handler_pool_options.priority": (DONE, "TensorFlow's own."),
    **_ANYWHERE,
}
_NO_POOLS: Final = "The servers have their own threads; a run cannot choose among them."
_CLUSTER_LOG: Final = (DONE, "From the memory that step stats tell; of a run that failed none.")
_CLUSTER: Final[dict[str, tuple[str, str]]] = {
    **_SESSION,
    "trace_level": (
        DONE,
        "From TensorFlow's own step stats, which a cluster gives at FULL_TRACE only: that is used "
        "for every level, and of a run that failed there are none. `completeness` says so.",
    ),
    "timeout_in_ms": (
        DONE,
        "Control comes back at the deadline, also where a task does not answer; the cluster is "
        "told to cancel the run. What was in flight it does not tell, which `completeness` says.",
    ),
    "inter_op_thread_pool": (REFUSED, _NO_POOLS),
    "output_partition_graphs": (
        DONE,
        "TensorFlow's own, of all tasks. Of a run that failed, those of an earlier one like it; "
        "`completeness` says where there is none.",
    ),
    f"{_WATCH}debug_urls": (
        DONE,
        "`file://`, `grpc://` and `memcbk://`, TensorFlow's own: written by the task that runs "
        "the node, where it runs.",
    ),
    "experimental.use_run_handler_pool": (REFUSED, _NO_POOLS),
    "experimental.run_handler_pool_options.priority": (REFUSED, _NO_POOLS),
    "report_tensor_allocations_upon_oom": (
        DONE,
        "What was refused, the variables on that device, and what the last traced run that fitted "
        "held there: more a cluster does not tell, which `completeness` says.",
    ),
    "allocation_log_buffer_size": _CLUSTER_LOG,
    "allocation_log_sampling_rate": _CLUSTER_LOG,
    "allocation_log_address": (DONE, "Step stats of a cluster tell no addresses of allocations."),
}
_FUNCTION: Final[dict[str, tuple[str, str]]] = {
    "trace_level": (
        DONE,
        f"From the profiler. {_FULL}",
    ),
    "timeout_in_ms": (
        DONE,
        "Cancelled at the deadline; an op that cannot be is waited for, and those after it may "
        "still run. Without a trace one op in flight is named, or the Python ops.",
    ),
    "inter_op_thread_pool": (
        REFUSED,
        "TensorFlow runs functions on its own pool, which is 0; it cannot be told otherwise.",
    ),
    "output_partition_graphs": (DONE, "Functions are instantiated anew the first time."),
    **{name: (REFUSED, _NO_EXECUTOR) for name in _SESSION if name.startswith("debug_options")},
    "experimental.collective_graph_key": (REFUSED, _NO_EXECUTOR),
    "experimental.use_run_handler_pool": (REFUSED, _NO_EXECUTOR),
    "experimental.run_handler_pool_options.priority": (REFUSED, _NO_EXECUTOR),
    **_ANYWHERE,
}
_EAGER: Final[dict[str, tuple[str, str]]] = {
    **_FUNCTION,
    "output_partition_graphs": (DONE, "Of the functions that are called; eager ops have none."),
    "timeout_in_ms": (
        DONE,
        "Looked at between ops. Ops that wait for others (queues, iterators) are cancelled, as "
        "are functions called; other ops are waited for.",
    ),
    "inter_op_thread_pool": (
        DONE,
        "Eager ops run on the caller's thread: 0 and -1 are the same. Functions called among them "
        "run on TensorFlow's own pool.",
    ),
}
SUPPORT: Final = {SESSION: _SESSION, FUNCTION: _FUNCTION, EAGER: _EAGER, CLUSTER: _CLUSTER}


def only_traces(options: ResolvedRunOptions) -> bool:
    """Whether they ask for a trace, or for nothing at all: every engine can do that."""
    level = options.trace_level
    alone = TRACED_ALONE[level] if level < len(TRACED_ALONE) else None
    return options is alone or options == alone


def check(options: ResolvedRunOptions, engine: str) -> None:
    """Refuse what the engine cannot do, by name; and pools that do not exist."""
    if only_traces(options):
        return
    pool = options.inter_op_thread_pool
    if engine != SESSION and pool not in (0, -1):
        raise new_error("InvalidArgumentError", f"Invalid inter_op_thread_pool: {pool}")
    for field, (state, _) in SUPPORT[engine].items():
        if state == REFUSED and _is_set(options, field):
            raise new_error(
                "UnimplementedError",
                f"RunOptions.{field} is not supported by the engine {engine!r}.",
            )


def check_watches(debug_options: Any, graph: Any) -> None:
    """Refuse watches of what is not there, which TensorFlow passes over in silence."""
    for watch in debug_options.debug_tensor_watch_opts if debug_options is not None else ():
        for url in watch.debug_urls:
            if not url.startswith(_DEBUG_URLS):
                raise new_error(
                    "InvalidArgumentError",
                    f"debug_options: cannot write to {url!r}; it has to begin with one of "
                    f"{', '.join(_DEBUG_URLS)}",
                )
        if watch.node_name == "*":
            continue
        try:
            op = graph.get_operation_by_name(watch.node_name)
        except KeyError:
            raise new_error(
                "InvalidArgumentError",
                f"debug_options: there is no node {watch.node_name!r} in the session's graph.",
            ) from None
        if not -1 <= watch.output_slot < len(op.outputs):
            raise new_error(
                "InvalidArgumentError",
                f"debug_options: node {watch.node_name!r} has no output {watch.output_slot}, "
                f"only {len(op.outputs)}.",
            )


def without_effect(options: ResolvedRunOptions, config: Any) -> list[Loss]:
    """The options of a session's run that TensorFlow defines as having no effect in it."""
    losses = []
    debug = options.debug_options
    if debug is not None and not len(debug.debug_tensor_watch_opts):
        losses += [
            Loss(f"debug_options.{name}", 0, "no effect without watches")
            for name in ("global_step", "reset_disk_byte_usage")
            if getattr(debug, name)
        ]
    pool = options.inter_op_thread_pool
    if options.use_run_handler_pool:
        own = "the session has threads of its own"
        why = own if config.use_per_session_threads else ""
        if pool > 0:
            why = f"{own}, and pool {pool} is one of them"
        elif pool < 0:
            why = "the run stays on the caller's thread"
        if why:
            field = "experimental.use_run_handler_pool"
            losses.append(Loss(field, 0, f"no effect: {why}"))
    elif options.run_handler_priority:
        field = "experimental.run_handler_pool_options.priority"
        losses.append(Loss(field, 0, "no effect without experimental.use_run_handler_pool"))
    return losses


def _is_set(options: ResolvedRunOptions, field: str) -> bool:
    if field.startswith("debug_options"):
        debug = options.debug_options
        if field.startswith(_WATCH):
            return debug is not None and len(debug.debug_tensor_watch_opts) > 0
        return debug is not None and bool(getattr(debug, field.partition(".")[2]))
    name = {
        "experimental.collective_graph_key": "collective_graph_key",
        "experimental.use_run_handler_pool": "use_run_handler_pool",
        "experimental.run_handler_pool_options.priority": "run_handler_priority",
    }.get(field, field)
    return bool(getattr(options, name) != getattr(DEFAULT_RESOLVED, name))
