"""`stepscope oom` and `stepscope memory`: from a saved run to who held the memory."""

import csv
import io
import json

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from stepscope.cli.output.area_plot import Curve, area_plot
from stepscope.cli.run import _remarks
from stepscope.cli.script.engines import Embedded
from stepscope.cli.script.recorded_runs import RecordedRuns
from stepscope.metadata import AllocationColumns, OpColumns, Recording, RunMetadata, Status

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
OTHER = "/job:localhost/replica:0/task:0/device:CPU:1"
LIMIT = 1_000_000


def a_run(batch, trace=stepscope.RunOptions.FULL_TRACE, **options):
    """Two layers on two devices, under a limit that a batch of 200 does not fit."""
    metadata = tf.RunMetadata()
    config = tf.ConfigProto(device_count={"CPU": 2}, memory_limit_bytes={"/cpu:0": LIMIT})
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        x = tf.placeholder(tf.float32, [None, 250], name="x")
        w = tf.Variable(tf.zeros([250, 500]), name="w")
        with tf.name_scope("net"):
            y = tf.nn.relu(tf.matmul(x, w), name="hidden")
            with tf.device("/cpu:1"):
                z = tf.reduce_sum(y, name="sum")
        session.run(tf.global_variables_initializer())
        try:
            session.run(
                z,
                {x: np.ones((batch, 250), "f")},
                options=tf.RunOptions(trace_level=trace, **options),
                run_metadata=metadata,
            )
        except tf.errors.ResourceExhaustedError as error:
            return error.run_metadata
    return metadata


@pytest.fixture
def runs(tmp_path):
    """A directory of three runs, the last of which failed."""
    for number, batch in enumerate((10, 100, 250)):
        place = tmp_path / "out" / f"run_{number:06d}"
        place.mkdir(parents=True)
        a_run(batch).save(place / "run_metadata.pb")
    return "out"


def test_oom_says_what_was_asked_and_the_table_adds_up(command, runs):
    code, out, _ = command("oom", runs)
    assert code == 0
    lines = out.splitlines()
    facts = dict(line.split(maxsplit=1) for line in lines if line.startswith(("limit", "live")))
    assert facts["limit"].startswith("977 KiB (1,000,000 bytes)")
    held = 250 * 500 * 4 + 250 * 250 * 4
    assert f"({held:,} bytes)" in facts["live"]
    assert any(line.startswith("asked by") and "net/MatMul" in line for line in lines)
    assert any("test_cli_memory.py:" in line for line in lines)
    assert "488 KiB (500,000 bytes)  [250,500] float32" in out
    rows = [line.split() for line in lines if line.startswith(("w ", "x ", "in all"))]
    sizes = [int(next(cell for cell in row if cell[0].isdigit()).replace(",", "")) for row in rows]
    assert sizes == [500_000, 250_000, 750_000]
    # w stays whatever the batch is; of x and the request it takes 3,000 bytes each.
    assert "a batch of x of at most 166 instead of 250 would fit" in " ".join(out.split())


def test_a_recording_that_ran_out_of_memory_names_the_command(tmp_path):
    for batches in ([10], [10, 250]):
        runs = RecordedRuns(tmp_path / "some runs")
        for batch in batches:
            runs.add(a_run(batch))
        runs.stop()
        if len(batches) == 1:
            assert _remarks(runs, Embedded(), 1, "full", 0) == []
    assert _remarks(runs, Embedded(), 1, "full", 0) == [
        f"who held the memory: stepscope oom '{tmp_path}/some runs'"
    ]


def test_oom_as_json_is_the_whole_report(command, runs):
    code, out, _ = command("oom", "--json", runs)
    assert code == 0
    report = json.loads(out)
    assert report["request"]["op"] == "net/MatMul"
    assert report["request"]["shape"] == [250, 500]
    assert report["dtype"] == "float32"
    assert report["limit"] == LIMIT
    assert sum(row["bytes"] for row in report["rows"]) == report["live"] == 750_000
    assert report["live_bytes"][-1] == 750_000
    assert len(report["live_bytes"]) == len(report["time_ns"])


def test_oom_plots_up_to_the_failure(command, runs):
    _, out, _ = command("oom", "--plot", runs)
    assert "from every allocation of the run" in out
    assert "░ refused: 488 KiB" in out
    assert "╌ limit" in out


def test_oom_of_runs_that_fitted_says_what_to_record(command, runs):
    code, out, err = command("oom", "--run", "0", runs)
    assert (code, out) == (2, "")
    assert "status OK" in err
    assert "--trace full" in err
    code, _, err = command("oom", f"{runs}/run_000001")
    assert code == 2
    code, _, err = command("oom", "--run", "7", runs)
    assert "there is no run 7; out holds 3" in err


def test_oom_of_a_directory_in_which_nothing_failed(command, tmp_path):
    for name in ("a", "b"):
        a_run(10).save(tmp_path / f"{name}.run_metadata.pb")
    code, _, err = command("oom", tmp_path)
    assert code == 2
    assert "none of the 2 runs ran out of memory" in err


def test_memory_shows_the_peak_of_each_device_and_who_held_it(command, runs):
    code, out, _ = command("memory", "--run", "1", runs)
    assert code == 0
    # w, x, and the hidden layer, whose two ops share one buffer.
    peak = 500_000 + 100 * 250 * 4 + 100 * 500 * 4
    assert f"({peak:,} bytes)" in out
    assert "CPU:1  peak" in out
    assert "▒ variables, queues, feeds" in out
    share = (500_000 + 100_000) / peak
    assert f"at the peak {share:.1%} was in variables" in out


def test_memory_of_one_device_as_csv_and_json(command, runs):
    code, out, _ = command("memory", "--run", "1", "--device", "cpu:0", "--csv", runs)
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["device"] for row in rows} == {CPU}
    assert rows[0]["key"] == "w"
    assert rows[0]["persistent"] == "True"
    _, out, _ = command("memory", "--run", "1", "--device", "CPU:0", "--json", runs)
    profile = json.loads(out)
    (device,) = profile["devices"]
    assert sum(int(row["bytes"]) for row in rows) == device["peak_bytes"]
    assert max(device["live_bytes"]) == device["peak_bytes"]


def test_memory_by_scope(command, runs):
    _, out, _ = command("memory", "--run", "1", "--by", "scope", "--device", "CPU:0", runs)
    assert [line.split()[0] for line in out.splitlines() if line.startswith(("(top)", "net"))] == [
        "(top)",
        "net",
        "(top)",
    ]


def test_memory_of_a_device_that_is_not_there(command, runs):
    code, _, err = command("memory", "--device", "GPU:0", runs)
    assert code == 2
    assert "no memory was recorded on device GPU:0; there is CPU:0, CPU:1" in err


def test_memory_of_a_run_that_recorded_none_says_what_to_record(command, tmp_path):
    metadata = RunMetadata()
    metadata.record(Recording(engine="embedded"))
    metadata.save(tmp_path / "run_metadata.pb")
    code, _, err = command("memory", "run_metadata.pb")
    assert code == 2
    assert "no memory was recorded; record it with `stepscope run --trace full`" in err


def test_both_commands_have_help_with_an_example(command):
    for name in ("oom", "memory"):
        code, out, _ = command(name, "--help")
        assert code == 0
        assert f"Example: stepscope {name}" in out


# -- the plot ------------------------------------------------------------------------------


def plotted(times, live, *, width=41, height=4, **options):
    curve = Curve(np.array(times), np.array(live), options.pop("persistent", None))
    text = area_plot(curve, width, height, **options).plain
    return [line[11:] for line in text.splitlines()[:height]], text


def test_each_column_shows_the_most_that_was_live_in_it():
    # 30 columns of 10 ns: 40 bytes, for an instant 80, then 40 until half time, then 20.
    rows, text = plotted([0, 55, 56, 150, 300], [40, 80, 40, 20, 20])
    assert rows[0] == " " * 5 + "█" + " " * 24
    assert rows[1] == rows[0]
    assert rows[2] == "█" * 15 + "█" + " " * 14
    assert rows[3] == "█" * 30
    assert "80 B┤" in text
    assert "300 ns" in text


def test_persistent_memory_lies_below():
    rows, text = plotted([0, 100], [40, 80], persistent=np.array([40, 40]))
    assert rows[3] == "▒" * 30
    assert rows[2] == "▒" * 30
    assert rows[0] == rows[1] == " " * 29 + "█"
    assert "▒ variables, queues, feeds" in text


def test_the_limit_is_a_line_and_the_refused_request_crosses_it():
    rows, text = plotted([0, 100], [40, 40], limit=60, refused=40, height=8)
    line = next(i for i, row in enumerate(rows) if "╌" in row)
    assert rows[line].endswith("░░")
    assert rows[0].endswith("░░")
    assert rows[0].strip() == "░░"
    assert rows[-1] == "█" * 30
    assert "60 B┤" in text


def test_a_request_out_of_all_proportion_does_not_flatten_the_curve():
    rows, text = plotted([0, 100], [40, 40], refused=10**12, height=8)
    assert rows[0].strip() == "▲▲"
    assert rows[1] == "▃" * 28 + "░░"
    assert rows[2] == "█" * 30
    assert "░ refused: 931 GiB" in text


def test_a_limit_far_away_does_not_flatten_the_curve():
    rows, text = plotted([0, 100], [40, 40], limit=10**9, refused=10**12, height=8)
    assert rows[2] == "█" * 30
    assert "limit" not in text


def test_a_single_event_is_a_plot_too():
    rows, _ = plotted([5], [64])
    assert rows == ["█" * 30] * 4


def test_oom_of_runs_that_failed_without_a_report(command, tmp_path):
    for name in ("a", "b"):
        metadata = RunMetadata()
        metadata.record(Recording(engine="embedded", status=Status("RESOURCE_EXHAUSTED", "full")))
        metadata.save(tmp_path / f"{name}.run_metadata.pb")
    code, _, err = command("oom", tmp_path)
    assert code == 2
    assert "2 of the 2 runs ran out of memory, but without a report" in err
    assert "report_tensor_allocations_upon_oom=True" in err


def taken(kind, device):
    """A run whose only op is on the CPU, with memory of this kind on this device."""
    allocations = AllocationColumns.build(
        name=["a"], device=[device], time_ns=[1_000], bytes=[2048], kind=kind
    )
    metadata = RunMetadata()
    metadata.record(
        Recording(
            engine="tensorflow session",
            ops=lambda: OpColumns.build(
                name=["a"],
                op=["Neg"],
                device=[CPU],
                thread=[1],
                scheduled_ns=[1_000],
                start_ns=[1_000],
                end_ns=[2_000],
            ),
            allocations=lambda: allocations,
        )
    )
    return metadata


def test_no_share_is_told_of_variables_that_nobody_recorded(command, tmp_path):
    taken("temporary", CPU).save(tmp_path / "run_metadata.pb")
    _, out, _ = command("memory", tmp_path / "run_metadata.pb")
    assert "variables, queues and feeds: none were recorded on this device" in out
    assert "0.0% was in variables" not in out
    taken("variable", CPU).save(tmp_path / "run_metadata.pb")
    _, out, _ = command("memory", tmp_path / "run_metadata.pb")
    assert "100.0% was in variables, queues and feeds" in out.replace("\n", " ")


def test_info_tells_the_peak_of_a_device_on_which_no_op_ran(command, tmp_path):
    taken("unattributed", f"{CPU} (mklcpu)").save(tmp_path / "run_metadata.pb")
    _, out, _ = command("info", tmp_path / "run_metadata.pb")
    assert "CPU:0 (mklcpu)  (peak 2.00 KiB)" in out
    _, out, _ = command("info", tmp_path / "run_metadata.pb", "--csv")
    assert ",2048," in out
