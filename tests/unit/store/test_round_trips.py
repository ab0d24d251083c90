"""Everything that a run holds comes back from a store."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from recorded_examples import GRAPH, recorded, runs, simple_run

import stepscope
from random_examples import examples
from run_content import of_ops, ours
from stepscope import _messages as pb
from stepscope.metadata import (
    AllocationColumns,
    OpColumns,
    Recording,
    RunMetadata,
    Shared,
    TensorColumns,
)
from stepscope.metadata.stored.stored_run import RunEncoder, decoded_run
from stepscope.store import Store


def stored_and_read(metadata: RunMetadata) -> RunMetadata:
    return decoded_run(RunEncoder().encode(metadata))


@given(runs())
@examples(150)
def test_everything_comes_back(metadata):
    again = stored_and_read(metadata)
    assert of_ops(again.ops) == of_ops(metadata.ops)
    assert ours(again) == ours(metadata)
    assert again == metadata


@given(runs())
@examples(60)
def test_a_run_that_is_a_message_comes_back(metadata):
    message = RunMetadata.FromString(metadata.SerializeToString())
    again = stored_and_read(message)
    assert again == message
    assert ours(again) == ours(message)
    assert of_ops(again.ops) == of_ops(message.ops)


def test_no_field_of_a_recording_is_forgotten():
    # A field that is new here must be stored in `stored_run`, and be among `runs()` above, or, as
    # `log`, `pattern` and `call` are, in a test of its own.
    assert {field.name for field in fields(Recording)} == {
        *("engine", "recorder", "step_id", "status", "completeness", "overhead", "ops", "log"),
        *("call", "pattern"),
        *("allocations", "allocation_log", "out_of_memory", "partition_graphs", "function_graphs"),
        *("cost_graph", "session_metadata", "placements", "sources", "run_options", "peak_bytes"),
    }


def test_what_was_written_to_a_message_is_stored():
    metadata = simple_run(1)
    metadata.step_stats.dev_stats[0].node_stats[0].node_name = "renamed"
    assert stored_and_read(metadata).ops.name.tolist() == ["renamed", "n1", "n2"]
    metadata.MergeFrom(pb.RunMetadataMessage(partition_graphs=[GRAPH]))
    again = stored_and_read(metadata)
    assert again == metadata
    assert [node.name for node in again.partition_graphs[0].node] == ["a"]


def test_a_saved_file_is_the_same_from_a_store(tmp_path):
    metadata = simple_run(3)
    stored_and_read(metadata).save(tmp_path / "stored.pb")
    metadata.save(tmp_path / "direct.pb")
    assert (tmp_path / "stored.pb").read_bytes() == (tmp_path / "direct.pb").read_bytes()


def test_runs_of_one_graph_share_its_facts(tmp_path):
    with Store(tmp_path) as store:
        for number in range(3):
            store.add(simple_run(number))
    first, second, third = stepscope.load(store.path)
    assert first.ops.facts is second.ops.facts is third.ops.facts


def test_the_same_step_in_another_order_shares_all_but_times(tmp_path):
    def run(order: list[int]) -> RunMetadata:
        names = [f"n{i}" for i in order]
        columns = OpColumns.build(
            name=names, op=names, device=names, thread=[1, 2, 1], scheduled_ns=[0, 0, 0],
            start_ns=[5, 6, 7], end_ns=[8, 9, 9],
            tensors=TensorColumns.build(
                op_index=[0, 1, 2], slot=[0, 0, 0], dtype=[1, 1, 1],
                shape=[(i,) for i in order], bytes=[4 * i for i in order], address=[7, 8, 9],
            ),
        )  # fmt: skip
        return recorded(ops=lambda: columns)

    encoder = RunEncoder()
    one, other = encoder.encode(run([0, 1, 2])), encoder.encode(run([2, 0, 1]))
    for part in ("facts", "tensors", "outcome"):
        assert one.parts[part][0].digest == other.parts[part][0].digest
    assert decoded_run(other).ops.tensors.shape.tolist() == [(2,), (0,), (1,)]


def test_what_recordings_share_is_made_once():
    made = []

    def lines() -> dict[str, str]:
        made.append(1)
        return {"n0": "train.py:3"}

    shared = Shared(lines)
    encoder = RunEncoder()
    stored = [encoder.encode(recorded(sources=shared)) for _ in range(3)]
    assert made == [1]
    assert decoded_run(stored[2]).sources == {"n0": "train.py:3"}
    assert stored[0].parts["sources"] == stored[2].parts["sources"]


def test_a_recording_is_asked_once_by_its_readers_and_the_store():
    asked = []

    def once(name: str, value: object) -> object:
        def give() -> object:
            asked.append(name)
            return value

        return give

    metadata = recorded(
        ops=once("ops", OpColumns.empty()),
        allocations=once("allocations", AllocationColumns.empty()),
        partition_graphs=once("graphs", [GRAPH]),
        cost_graph=once("costs", pb.CostGraphDef()),
        sources=once("sources", {"a": "b:1"}),
    )
    metadata.SerializeToString()
    stored_and_read(metadata)
    assert metadata.ops is not None
    assert metadata.sources == {"a": "b:1"}
    assert sorted(asked) == ["allocations", "costs", "graphs", "ops", "sources"]


def test_nothing_is_decoded_before_somebody_looks(tmp_path, monkeypatch):
    with Store(tmp_path) as store:
        store.add(simple_run(1))
    (run,) = stepscope.load(store.path)
    monkeypatch.setattr(OpColumns, "over", None)
    assert (run.engine, run.step_id, run.status.code) == ("embedded", 1, "OK")
    with pytest.raises(TypeError):
        _ = run.ops


def test_addresses_of_64_bits(tmp_path):
    tensors = TensorColumns.build(
        op_index=[0], slot=[0], dtype=[1], shape=[(1,)], bytes=[4],
        address=np.array([(1 << 64) - 1], np.uint64),
    )  # fmt: skip
    columns = simple_run(1, 1).ops.replace(tensors=tensors)
    again = stored_and_read(recorded(ops=lambda: columns))
    assert again.ops.tensors.address.tolist() == [(1 << 64) - 1]
