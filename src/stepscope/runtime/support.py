"""What the embedded engine does with each field of RunOptions: the source of the support table.

A test holds this table against the fields that exist and against what the engine really does.
"""

from __future__ import annotations

from typing import Final

DONE: Final = "yes"

SUPPORT: Final[dict[str, tuple[str, str]]] = {
    "trace_level": (
        DONE,
        "SOFTWARE: scheduled, start, end and thread of every node. FULL: memory and tensor "
        "descriptions as well. HARDWARE is SOFTWARE, as there is no other device.",
    ),
    "timeout_in_ms": (
        DONE,
        "Control comes back at the deadline; ops in flight are cancelled or abandoned, and named. "
        "With `inter_op_thread_pool=-1` the deadline is looked at between ops.",
    ),
    "inter_op_thread_pool": (
        DONE,
        "-1 is the caller's thread when the run has one partition, pool 0 when it has several.",
    ),
    "output_partition_graphs": (DONE, ""),
    "debug_options.debug_tensor_watch_opts.node_name": (DONE, "An unknown node is an error."),
    "debug_options.debug_tensor_watch_opts.output_slot": (
        DONE,
        "An unknown slot is an error; -1 (all) goes with the node `*`.",
    ),
    "debug_options.debug_tensor_watch_opts.debug_ops": (
        DONE,
        "DebugIdentity, DebugNanCount and DebugNumericSummary.",
    ),
    "debug_options.debug_tensor_watch_opts.debug_urls": (
        DONE,
        "`file://` and `memcbk://` (see `stepscope.debug_callback`); `grpc://` is refused. "
        "`TFDBG_DISK_BYTES_LIMIT` bounds what is dumped.",
    ),
    "debug_options.debug_tensor_watch_opts.tolerate_debug_op_creation_failures": (DONE, ""),
    "debug_options.global_step": (DONE, "Named in the dumps."),
    "debug_options.reset_disk_byte_usage": (DONE, ""),
    "report_tensor_allocations_upon_oom": (
        DONE,
        "The error and the metadata say who held the memory; brings the allocation log along.",
    ),
    "experimental.collective_graph_key": (
        DONE,
        "Kept in the metadata; a graph with a collective op is refused.",
    ),
    "experimental.use_run_handler_pool": (
        DONE,
        "One pool for the process. No effect in a session with pools of its own, as in "
        "TensorFlow; `completeness` says so.",
    ),
    "experimental.run_handler_pool_options.priority": (
        DONE,
        "Higher first, then oldest first.",
    ),
    "allocation_log_buffer_size": (DONE, "1,000 events where another option asks for the log."),
    "allocation_log_sampling_rate": (DONE, "Every allocation where it is left out."),
    "allocation_log_address": (DONE, ""),
}
