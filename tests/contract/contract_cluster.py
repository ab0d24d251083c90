"""What TensorFlow's cluster cannot do of the contract, and says that it cannot.

By reason the tests that are left out for it; `docs/support.md` and `completeness` tell users.
"""

from __future__ import annotations

GAPS: dict[str, set[str]] = {
    "a cluster tells nothing of the ops of a run that failed or was cut off": {
        "test_a_deadline_ends_the_wait_for_an_element",
        "test_a_dequeue_that_waits_is_cancelled",
        "test_a_step_that_fails_is_named_with_those_before_it",
        "test_a_step_that_is_out_of_time_is_named",
        "test_a_python_op_is_abandoned_or_waited_for_and_named",
        "test_a_time_out",
        "test_a_time_out_without_a_trace_names_the_dequeue_in_flight_or_says_that_it_cannot",
        "test_an_error_of_a_kernel",
        "test_an_op_error",
        "test_losses_count_what_is_missing",
        "test_of_several_ops_in_flight_each_outcome_is_said",
        "test_run_metadata_of_a_failed_run",
        "test_the_end_of_a_pipeline_is_an_error_with_metadata",
    },
    "what is fed and fetched is sent to the server and back; sends have no rows": {
        "test_a_traced_node_is_a_node_of_the_partition_graphs",
        "test_one_device_is_one_partition_without_transfers",
        "test_partition_graphs_one_per_device_with_sends_and_receives",
    },
    "what waits on a server is not ended by this process": {
        "test_a_keyboard_interrupt_inside_a_python_op",
        "test_a_keyboard_interrupt_while_a_dequeue_is_blocked",
        "test_closing_the_session_abandons_a_python_op_on_a_pool",
        "test_closing_the_session_wakes_a_blocked_dequeue",
        "test_control_c_in_a_program_of_its_own",
    },
    "every level is FULL_TRACE, and threads are not told": {
        "test_every_level_has_every_executed_node_with_its_times",
        "test_full_records_what_ops_allocated_and_says_what_it_cannot_know",
        "test_software_and_hardware_hold_no_tensors_and_no_memory",
        "test_thread_ids_and_thread_names_are_filled",
        "test_what_an_engine_never_measures_is_in_every_full_record_and_in_no_other",
    },
    "the servers have their own configuration": {
        "test_config",
        "test_partition_graphs_that_the_session_forbids_are_refused",
        "test_the_cost_graph_comes_on_tensorflow_s_schedule",
        "test_with_a_deadline_sessions_run_on_other_threads_unless_asked",
    },
}
