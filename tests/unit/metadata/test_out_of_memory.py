"""The out-of-memory report: rows that add up, what grew, advice that is true, and its bytes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_examples import examples
from stepscope.metadata import AllocationColumns, Recording, RunMetadata
from stepscope.metadata.memory.out_of_memory import (
    BatchHint,
    Growth,
    MemoryRequest,
    out_of_memory,
)

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
OTHER = "/job:localhost/replica:0/task:0/device:CPU:1"
MIB = 1 << 20
SOURCES = {"w": "model.py:10", "h": "model.py:20", "big": "model.py:30"}


def alive(*tensors):
    """Tensors as (op, kind, bytes, shape[, device])."""
    return AllocationColumns.build(
        name=[t[0] for t in tensors],
        kind=[t[1] for t in tensors],
        bytes=[t[2] for t in tensors],
        shape=[t[3] for t in tensors],
        device=[t[4] if len(t) > 4 else CPU for t in tensors],
        time_ns=range(len(tensors)),
        dtype=[1] * len(tensors),
    )


def request(size, shape=None, op="big"):
    return MemoryRequest(op, size, CPU, slot=0, shape=shape, dtype=1, time_ns=99)


TRAINING = alive(
    ("w", "variable", 4 * MIB, (1024, 1024)),
    ("h", "temporary", 2 * MIB, (512, 1024)),
    ("h", "temporary", 2 * MIB, (512, 1024)),
    ("x", "feed", MIB, (512, 512)),
)


def table_of(text):
    """The table's byte column: its rows, and the sum it states."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.split()[:2] == ["bytes", "share"])
    sizes = []
    for line in lines[first + 1 :]:
        sizes.append(int(line.split()[0].replace(",", "")))
        if line.endswith("in all"):
            return sizes[:-1], sizes[-1]
    raise AssertionError("the table has no sum")


def test_the_report_says_what_was_asked_who_holds_what_and_what_grew():
    report = out_of_memory(
        request(2 * MIB, (512, 1024)),
        TRAINING,
        sources=SOURCES,
        limit=10 * MIB,
        cached=3000,
        last_fit={"w": 4 * MIB, "h": MIB, "x": 2 * MIB},
    )
    assert report.text().splitlines() == [
        "big asked for 2,097,152 bytes (2.00 MiB) for a tensor of shape [512,1024] and type "
        f"float32 on {CPU}, made at model.py:30.",
        "Limit: 10,485,760 bytes (10.0 MiB). Live: 9,437,184 bytes (9.00 MiB). "
        "Cached: 3,000 bytes (2.93 KiB).",
        "Live tensors, the largest first:",
        "      bytes  share  tensors  kind       op      shapes                  made at",
        "  4,194,304  44.4%        2  temporary  h       2 x [512,1024] float32  model.py:20",
        "  4,194,304  44.4%        1  variable   w       [1024,1024] float32     model.py:10",
        "  1,048,576  11.1%        1  feed       x       [512,512] float32",
        "  9,437,184               4             in all",
        "Grew since the last run that fitted:",
        "  +3,145,728 bytes  h  (1,048,576 then, 4,194,304 now)  model.py:20",
        "Advice: variables, queues and feeds hold 56% of the live bytes; they stay whatever the "
        "ops of the run free; 1,048,576 bytes are missing.",
    ]
    assert report.grown == (Growth("h", "model.py:20", MIB, 4 * MIB),)


TENSOR = st.tuples(
    st.sampled_from(["a", "a/b", "c", "d", "e"]),
    st.sampled_from(["temporary", "variable", "queue", "feed", "output", "unattributed"]),
    st.integers(0, 1 << 50),
    st.one_of(st.none(), st.lists(st.integers(0, 9), max_size=3).map(tuple)),
    st.sampled_from([CPU, OTHER]),
)


@examples(200)
@given(st.lists(TENSOR, max_size=30), st.integers(0, 1 << 55), st.integers(0, 8))
def test_rows_sum_to_the_live_bytes_however_many_are_shown(tensors, limit, shown):
    report = out_of_memory(request(1 << 56), alive(*tensors), limit=limit)
    here = sum(t[2] for t in tensors if t[4] == CPU)
    assert report.live == sum(row.bytes for row in report.rows) == here
    assert sum(row.tensors for row in report.rows) == sum(t[4] == CPU for t in tensors)
    assert [row.bytes for row in report.rows] == sorted(
        (row.bytes for row in report.rows), reverse=True
    )
    if report.rows:
        rows, stated = table_of(report.text(rows=shown))
        assert sum(rows) == stated == here
        assert len(rows) == min(len(report.rows), shown) + (len(report.rows) > shown)
    assert RunMetadata.FromString(with_report(report).SerializeToString()).out_of_memory == report


def with_report(report):
    metadata = RunMetadata()
    metadata.record(Recording(engine="embedded", out_of_memory=report))
    return metadata


def test_the_rows_that_are_cut_are_summed_up():
    tensors = [(f"op_{i:02}", "temporary", 100 + i, (25,)) for i in range(30)]
    report = out_of_memory(request(1), alive(*tensors), limit=10)
    text = report.text()
    assert re.search(r"^ +1,045 +\S+% +10 +10 more$", text, re.MULTILINE)
    assert len(report.rows) == 30


def test_a_devices_limit_counts_what_is_on_the_device_and_the_machines_counts_all():
    tensors = alive(("a", "temporary", 100, (25,)), ("b", "temporary", 900, (225,), OTHER))
    assert out_of_memory(request(8), tensors, limit=104).live == 100
    machine = out_of_memory(request(8), tensors)
    assert machine.live == 1000
    assert "the machine's own" in machine.text()


def test_memory_that_nobody_explains_is_a_row_of_its_own():
    report = out_of_memory(
        request(10 * MIB),
        alive(("w", "variable", MIB, None), ("before recording", "unattributed", 77, None)),
        limit=2 * MIB,
    )
    assert [(row.op, row.kind, row.bytes) for row in report.rows] == [
        ("w", "variable", MIB),
        ("before recording", "unattributed", 77),
    ]


def test_frees_and_refused_requests_are_never_live():
    events = AllocationColumns.build(
        name=["a", "b", "c"],
        device=[CPU] * 3,
        time_ns=[1, 2, 3],
        bytes=[5, -5, 7],
        event=["held", "free", "failed"],
    )
    assert out_of_memory(request(1), events, limit=5).live == 5


def test_nothing_live_and_nothing_grown_is_said():
    text = out_of_memory(request(8), AllocationColumns.empty(), limit=4, last_fit={}).text()
    assert "No tensor was live." in text
    assert "Nothing that is live grew" in text
    assert "grew" not in out_of_memory(request(8), AllocationColumns.empty(), limit=4).text()


# -- advice --------------------------------------------------------------------------------


def test_the_batch_that_would_fit():
    batch = BatchHint(512, "x", scaling={"h", "big", "x"})
    report = out_of_memory(request(2 * MIB, (512, 1024)), TRAINING, limit=10 * MIB, batch=batch)
    # Of w there are 4 MiB whatever the batch; of the rest 7 MiB for 512: 14,336 bytes each.
    assert (10 * MIB - 4 * MIB) // 14_336 == 438
    assert report.advice == (
        "this request would fit with a batch of x of at most 438 instead of 512: 5,242,880 of the "
        "live bytes and the request shrink with it. What later ops need is not known here and may "
        "ask for a smaller one."
    )


@examples(200)
@given(
    batch=st.integers(2, 100),
    widths=st.lists(st.integers(1, 50), max_size=6),
    asked=st.integers(1, 50),
    fixed=st.integers(0, 4000),
    limit=st.integers(1, 30_000),
)
def test_the_batch_that_would_fit_is_the_largest_one(batch, widths, asked, fixed, limit):
    def tensors(size):
        return [(f"t{i}", "temporary", 4 * size * w, (size, w)) for i, w in enumerate(widths)]

    variable = ("w", "variable", fixed, (fixed,))

    def fits(size):
        live = fixed + sum(t[2] for t in tensors(size))
        return live + 4 * size * asked <= limit

    report = out_of_memory(
        request(4 * batch * asked, (batch, asked)),
        alive(variable, *tensors(batch)),
        limit=limit,
        batch=BatchHint(batch, "x", scaling={"big", *(f"t{i}" for i in range(len(widths)))}),
    )
    found = re.match(
        r"this request would fit with a batch of x of at most ([\d,]+) instead", report.advice
    )
    if found:
        largest = int(found.group(1).replace(",", ""))
        assert fits(largest)
        assert not fits(largest + 1)
    elif report.advice.startswith("not even a batch of 1"):
        assert not fits(1)
    else:
        assert fits(batch)


def test_a_guessed_batch_is_said_to_be_one():
    report = out_of_memory(
        request(2 * MIB, (512, 1024)), TRAINING, limit=10 * MIB, batch=BatchHint(512)
    )
    assert report.advice.startswith(
        "if the leading 512 is the batch, this request would fit with a batch of at most 438"
    )


def test_a_request_without_the_batch_has_no_advice_on_it():
    for asked, hint in (
        ((512, 4), BatchHint(256, "x", {"h"})),
        ((512, 4), BatchHint(512, "x", {"h"})),
        (None, BatchHint(512)),
    ):
        report = out_of_memory(request(2 * MIB, asked), TRAINING, limit=10 * MIB, batch=hint)
        assert "batch" not in report.advice


@pytest.mark.parametrize(
    ("tensors", "size", "options", "said"),
    [
        pytest.param(
            [("w", "variable", 10, None)],
            100,
            {"limit": 60},
            "the request alone is 40 bytes above the limit",
            id="request alone",
        ),
        pytest.param(
            [("q", "queue", 80, None), ("a", "temporary", 10, None)],
            20,
            {"limit": 100, "last_fit": {"q": 40, "a": 10}},
            "the queue q holds 40 bytes more than in the last run that fitted; without these the "
            "request would fit (10 are missing).",
            id="a queue that grew",
        ),
        pytest.param(
            [("w", "variable", 60, None), ("a", "temporary", 30, None)],
            20,
            {"limit": 100, "sources": SOURCES},
            "the variable w (model.py:10) holds 67% of the live bytes",
            id="a variable",
        ),
        pytest.param(
            [("a", "temporary", 60, None), ("w", "variable", 10, None)],
            50,
            {"limit": 100},
            "a holds the most, 86% of the live bytes; 20 bytes are missing.",
            id="a temporary",
        ),
        pytest.param(
            [("a", "temporary", 40, None)],
            50,
            {"limit": 100},
            "together are 10 below the limit: the free memory is not in one piece",
            id="fragmented",
        ),
        pytest.param(
            [("a", "temporary", 40, None)],
            50,
            {"cached": 64},
            "64 bytes are kept for reuse and not live",
            id="cache",
        ),
        pytest.param(
            [("a", "temporary", 70, None)],
            50,
            {},
            "a holds the most, 100% of the live bytes.",
            id="the machine's limit",
        ),
        pytest.param(
            [("a", "temporary", 40, None)],
            50,
            {},
            "the request alone is larger than all that is live (40 bytes)",
            id="beyond the machine",
        ),
    ],
)
def test_advice(tensors, size, options, said):
    report = out_of_memory(request(size), alive(*tensors), **options)
    assert said in report.advice
    assert report.text().endswith(f"Advice: {report.advice}")


def test_no_figures_no_advice():
    report = out_of_memory(request(0), AllocationColumns.empty())
    assert report.advice == ""
    assert "Advice" not in report.text()


# -- in the metadata -----------------------------------------------------------------------


def test_the_report_travels_in_the_saved_file(tmp_path):
    import stepscope

    for report in (
        out_of_memory(request(8, (2, 1)), TRAINING, sources=SOURCES, limit=7, last_fit={"h": 1}),
        out_of_memory(request(8), TRAINING, last_fit=dict.fromkeys("whx", 1 << 40)),
        out_of_memory(request(8, ()), AllocationColumns.empty(), limit=0),
    ):
        path = with_report(report).save(tmp_path / "run_metadata.pb")
        assert stepscope.load(path).out_of_memory == report


def test_a_run_that_fitted_has_no_report():
    metadata = RunMetadata()
    assert metadata.out_of_memory is None
    metadata.record(Recording(engine="embedded"))
    assert RunMetadata.FromString(metadata.SerializeToString()).out_of_memory is None


def test_as_plain_values():
    report = out_of_memory(request(8, (2, 1)), TRAINING, limit=7)
    plain = report.to_dict()
    assert plain["request"]["dtype"] == "float32"
    assert [row["bytes"] for row in plain["rows"]] == [4 * MIB, 4 * MIB, MIB]
    assert plain["grown"] is None
    assert replace(report, grown=()).to_dict()["grown"] == ()
