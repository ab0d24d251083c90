"""Small runs decoded many at a time have the columns that each has alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shared_data import ARTEFACTS
from stepscope import _messages as pb
from stepscope.metadata import RunMetadata, StringColumn, iter_runs
from stepscope.metadata.wire.together import TOGETHER, decode_together, decoded_ahead

DATA = Path(__file__).parents[2] / "data"
FILES = sorted(p for root in (DATA, ARTEFACTS) for p in root.glob("**/run_metadata.pb"))


def saved(folder, number, nodes=3, name="layer"):
    """A file of a run with a thread, a step per row and outputs, as an engine of ours saves it."""
    message = pb.RunMetadataMessage(engine="simulated", step_id=number)
    for device in range(1 + number % 2):
        stats = message.step_stats.dev_stats.add(device=f"/device:CPU:{device}")
        stats.thread_names[7] = f"pool {number}"
        for node in range(nodes):
            row = stats.node_stats.add(
                node_name=f"{name}_{node}", thread_id=7, all_start_nanos=10 * node + 1,
                all_end_rel_nanos=5, timeline_label=f"{name}_{node} = Op{number % 3}(a)",
            )  # fmt: skip
            described = row.output.add().tensor_description
            described.dtype = 1
            described.shape.dim.add(size=number)
            row.memory.add(allocator_name=f"pool_{number % 2}", total_bytes=number)
    message.node_ops.add(node=f"{name}_0", op=f"Told{number}")
    message.thread_idents.add(thread_id=7, ident=1000 + number)
    path = folder / f"{number}.pb"
    path.write_bytes(message.SerializeToString())
    return path


def read(path):
    (run,) = iter_runs(path)
    return run.metadata


def plain(columns):
    """Everything that columns hold, to be compared."""
    found = {}
    for name in columns.__slots__:
        value = None if name.startswith("_") else getattr(columns, name)
        if isinstance(value, StringColumn):
            value = (value.codes.tolist(), value.table)
        elif isinstance(value, np.ndarray):
            value = (value.dtype, value.tolist())
        elif hasattr(type(value), "__slots__"):
            value = plain(value)
        found[name] = value
    return found


@pytest.fixture
def files(tmp_path):
    return [*FILES, *(saved(tmp_path, number) for number in range(1, 8)), saved(tmp_path, 0, 0)]


def test_columns_made_together_are_those_made_alone(files):
    together = [read(path) for path in files]
    decode_together(together)
    for path, run in zip(files, together, strict=True):
        assert plain(run.ops) == plain(read(path).ops), path
    told = [run for run in together if run.engine == "simulated" and len(run.ops)]
    assert [run.ops.op[0] for run in told] == [f"Told{number}" for number in range(1, 8)]
    assert [run.ops.thread[0] for run in told] == list(range(1001, 1008))


def test_a_run_that_is_damaged_leaves_the_others_readable(tmp_path):
    runs = [read(saved(tmp_path, number)) for number in range(1, 5)]
    # Text that is no UTF-8 parses as a message, in which it is a byte string of another field.
    data = saved(tmp_path, 9, name="layer").read_bytes().replace(b"layer_1", b"\xff\xffyer_1")
    (tmp_path / "9.pb").write_bytes(data)
    decode_together([*runs, read(tmp_path / "9.pb")])
    assert [len(run.ops) for run in runs] == [6, 3, 6, 3]


def test_a_message_that_was_handed_out_is_the_truth(tmp_path):
    runs = [read(saved(tmp_path, number)) for number in (1, 2)]
    runs[0].step_stats.dev_stats[0].node_stats[0].node_name = "renamed"
    decode_together(runs)
    assert runs[0].ops.name[0] == "renamed"
    runs[1].step_stats.dev_stats[0].node_stats[0].node_name = "renamed"
    assert runs[1].ops.name[0] == "renamed"


def test_only_some_runs_are_read_ahead_and_none_is_kept(tmp_path):
    path = saved(tmp_path, 1)
    read_so_far = []

    def runs():
        for number in range(3 * TOGETHER):
            read_so_far.append(number)
            yield number, read(path)

    ahead = [len(read_so_far) - number for number, _ in decoded_ahead(runs(), lambda each: each[1])]
    assert len(ahead) == 3 * TOGETHER
    assert 1 < max(ahead) <= TOGETHER + 1
    assert min(ahead) >= 1


def test_runs_that_are_in_memory_come_one_by_one():
    run = RunMetadata()
    seen = []

    def runs():
        for number in range(3):
            seen.append(number)
            yield run

    assert [len(seen) for _ in decoded_ahead(runs(), lambda each: each)] == [2, 3, 3]
