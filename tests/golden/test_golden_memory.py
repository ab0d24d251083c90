"""What `stepscope oom` and `stepscope memory` show, letter by letter.

To accept a change: STEPSCOPE_ACCEPT=1 pytest tests/golden, then look at the difference in git.
"""

import os
from pathlib import Path

import pytest

from stepscope.cli.arguments.command_line import run_command_line
from stepscope.metadata import AllocationColumns, Recording, RunMetadata, Status
from stepscope.metadata.memory.out_of_memory import BatchHint, MemoryRequest, out_of_memory

HERE = Path(__file__).parent
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
T0 = 1_794_769_119_769_750_449
BATCH = 512
LAYERS = 12


def a_training_step():
    """Variables and a fed batch, and layer after layer whose outputs stay for the gradients."""
    rows = [
        ("embedding/weights", "held", "variable", (4000, 256)),
        ("dense/kernel", "held", "variable", (1024, 1024)),
        ("dense/bias", "held", "variable", (1024,)),
        ("inputs/x", "held", "feed", (BATCH, 784)),
    ]
    for layer in range(LAYERS):
        name, width = f"tower_{layer // 4}/layer_{layer % 4}/MatMul", 128 * (1 + layer * 7 % 5)
        rows.append((name, "allocate", "temporary", (BATCH, width)))
        rows.append((f"{name}/scratch", "allocate", "temporary", (BATCH, 3 * width)))
        rows.append((f"{name}/scratch", "free", "temporary", (BATCH, 3 * width)))
    names, events, kinds, shapes = zip(*rows, strict=True)
    sizes = [4 * shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in shapes]
    return AllocationColumns.build(
        name=names,
        event=events,
        kind=kinds,
        shape=shapes,
        device=[CPU] * len(rows),
        time_ns=[T0 + 75_000 * i for i in range(len(rows))],
        bytes=[-s if e == "free" else s for s, e in zip(sizes, events, strict=True)],
        address=[1 + sorted(set(names)).index(name) for name in names],
        dtype=[1] * len(rows),
        slot=[0] * len(rows),
    )


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = a_training_step()
    alive = columns.alive_at(len(columns) - 1)
    live = int(alive.bytes.sum())
    batched = {name for name in alive.name if name.startswith(("tower", "inputs"))} | {"loss/grad"}
    sources = {
        name: f"{tmp_path}/train.py:{10 + i}" for i, name in enumerate(sorted(set(columns.name)))
    }
    before = dict(zip(alive.name.tolist(), (alive.bytes // 2).tolist(), strict=True))
    report = out_of_memory(
        MemoryRequest("loss/grad", 4 * BATCH * 4096, CPU, 0, (BATCH, 4096), 1, time_ns=T0 + 10**9),
        alive,
        sources={**sources, "loss/grad": f"{tmp_path}/train.py:88"},
        limit=live + 6_000_000,
        cached=1_000_000,
        last_fit={**before, "embedding/weights": 4_096_000, "dense/kernel": 4 << 20},
        batch=BatchHint(BATCH, "inputs/x", batched),
    )
    metadata = RunMetadata()
    metadata.record(
        Recording(
            engine="embedded",
            status=Status("RESOURCE_EXHAUSTED", "OOM"),
            allocations=lambda: columns,
            sources=lambda: sources,
            out_of_memory=report,
        )
    )
    metadata.save("run_metadata.pb")


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("oom", ["oom", "--plot", "--limit", "6"]), ("memory", ["memory", "--limit", "6"])],
)
def test_what_the_command_shows(saved, columns, name, arguments, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run_command_line([*arguments, "run_metadata.pb"]) == 0
    text = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()) + "\n"
    path = HERE / f"{name}_{columns}.txt"
    if os.environ.get("STEPSCOPE_ACCEPT"):
        path.write_text(text)
    assert text == path.read_text()
    assert max(map(len, text.splitlines())) <= columns
