"""Runs as tables: data frames, CSV, Parquet, and the command that writes them."""

from __future__ import annotations

import csv as plain_csv
import gzip
import sys
from pathlib import Path

import pandas as pd
import pyarrow.dataset
import pytest
from click.testing import CliRunner

from stepscope.cli.export import command
from stepscope.export import csv, parquet
from stepscope.metadata import AllocationColumns, Recording, RunMetadata, iter_runs, load

DATA = Path(__file__).parents[2] / "data"


def run_of(folder):
    return load(DATA / folder / "run_metadata.pb")


def with_allocations():
    metadata = RunMetadata()
    allocations = AllocationColumns.build(
        name=["a", "a"],
        device=["/cpu:0", "/cpu:0"],
        time_ns=[1_794_769_119_769_750_449, 1_794_769_119_769_750_450],
        bytes=[24, -24],
        address=[2**63 + 5, 2**63 + 5],
        slot=[0, 0],
        dtype=[1, 1],
        shape=[(2, -1), None],
        kind="output",
    )
    metadata.record(Recording(engine="embedded", allocations=lambda: allocations))
    return metadata


def test_csv(tmp_path):
    mlp = run_of("mlp_adam_refvars")
    path = csv({"one": mlp, "two, quoted": run_of("py_function")}, tmp_path / "deep" / "ops.csv")
    rows = list(plain_csv.DictReader(path.read_text().splitlines()))
    assert len(rows) == 66 + 7
    first = rows[0]
    assert list(first) == [
        "run", "name", "op", "device", "thread", "thread_name", "scheduled_ns", "start_ns",
        "end_ns", "output_bytes", "step",
    ]  # fmt: skip
    assert [row["run"] for row in rows[65:67]] == ["one", "two, quoted"]
    assert [row["name"] for row in rows[:66]] == mlp.ops.name.tolist()
    assert [int(row["start_ns"]) for row in rows[:66]] == mlp.ops.start_ns.tolist()
    assert sum(int(row["output_bytes"]) for row in rows[:66]) == mlp.ops.output_bytes.sum()


def test_csv_of_allocations(tmp_path):
    path = csv(with_allocations(), tmp_path / "memory.csv.gz", table="allocations")
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    first, second = plain_csv.DictReader(lines)
    assert first == {
        "run": "run 0", "name": "a", "slot": "0", "device": "/cpu:0", "event": "allocate",
        "time_ns": "1794769119769750449", "bytes": "24", "address": "9223372036854775813",
        "dtype": "float32", "shape": "2x?", "kind": "output", "step": "0",
    }  # fmt: skip
    assert (second["event"], second["bytes"], second["shape"]) == ("free", "-24", "")


def test_parquet_is_one_table_over_all_runs(tmp_path):
    runs = list(iter_runs(DATA))
    parquet(iter_runs(DATA), tmp_path)
    ops = pd.read_parquet(tmp_path / "ops")
    assert len(ops) == sum(len(run.metadata.ops) for run in runs)
    for run in runs:
        part = ops[ops["run"] == run.name]
        assert part["name"].tolist() == run.metadata.ops.name.tolist()
        assert part["start_ns"].tolist() == run.metadata.ops.start_ns.tolist()
    allocations = pd.read_parquet(tmp_path / "allocations")
    assert len(allocations) == sum(len(run.metadata.allocations) for run in runs)


def test_parquet_keeps_every_number(tmp_path):
    parquet([("a/b = c", with_allocations()), ("a/b = c", with_allocations())], tmp_path)
    table = pyarrow.dataset.dataset(tmp_path / "allocations", partitioning="hive").to_table()
    rows = table.to_pylist()
    assert {row["run"] for row in rows} == {"a/b = c", "a/b = c (2)"}
    assert [row["address"] for row in rows[:2]] == [2**63 + 5] * 2
    assert [row["shape"] for row in rows[:2]] == [[2, -1], None]
    assert not list(tmp_path.rglob(".*"))


def test_a_run_written_again_replaces_itself_only(tmp_path):
    parquet({"a": run_of("py_function"), "b": run_of("py_function")}, tmp_path)
    parquet({"b": run_of("mlp_adam_refvars")}, tmp_path)
    ops = pd.read_parquet(tmp_path / "ops")
    assert ops.groupby("run", observed=True).size().to_dict() == {"a": 7, "b": 66}


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'stepscope\[parquet\]'"):
        parquet(run_of("py_function"), tmp_path)


def test_data_frames():
    mlp = run_of("mlp_adam_refvars")
    frame = mlp.to_pandas()
    assert frame["name"].tolist() == mlp.ops.name.tolist()
    assert frame["end_ns"].dtype == "int64"
    allocations = with_allocations().to_pandas("allocations")
    assert allocations["bytes"].tolist() == [24, -24]
    assert allocations["dtype"].tolist() == ["float32", "float32"]
    with pytest.raises(ValueError, match="there is no table 'tensors' of a run"):
        mlp.to_pandas("tensors")


@pytest.mark.parametrize("kind", ["chrome", "csv", "csv-allocations", "parquet", "tensorboard"])
def test_the_command(tmp_path, kind):
    out = tmp_path / {"chrome": "t.json.gz", "tensorboard": "logs"}.get(kind, "out.csv")
    arguments = [str(DATA), "--to", kind, "-o", str(out)]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.output.split() == ["wrote", str(out)]
    assert out.exists()
    expected = {run.name: len(run.metadata.ops) for run in iter_runs(DATA)}
    if kind in ("chrome", "tensorboard"):
        loaded = load(out)
        assert sorted(len(run.ops) for run in loaded) == sorted(expected.values())
    elif kind == "parquet":
        assert len(pd.read_parquet(out / "ops")) == sum(expected.values())
    elif kind == "csv":
        assert pd.read_csv(out).groupby("run").size().to_dict() == expected


def test_the_command_says_what_is_no_run(tmp_path):
    (tmp_path / "a.txt").write_text("words")
    done = CliRunner().invoke(command, [str(tmp_path / "a.txt"), "--to", "csv"])
    assert "is text" in str(done.exception)
