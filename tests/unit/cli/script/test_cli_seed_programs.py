"""Programs as people published them, unchanged but for plain typos, where the texts are there."""

import json
import re
import textwrap
from importlib.util import find_spec

import pytest

from shared_data import SEEDS, fenced_programs, seed_text

TENSORFLOW = (
    pytest.mark.tensorflow,
    pytest.mark.skipif(not find_spec("tensorflow"), reason="needs the real TensorFlow"),
)

pytestmark = pytest.mark.skipif(not SEEDS.is_dir(), reason="the texts are not there")


def numbered_programs():
    """Programs whose lines were numbered when the page was copied: `1import ...`, `10)`."""
    programs = []
    for block in re.findall(r"^python\n((?:\d+.*\n)+)", seed_text(0), re.MULTILINE):
        lines = [line.removeprefix(str(i)) for i, line in enumerate(block.splitlines(), 1)]
        programs.append("\n".join(lines) + "\n")
    return programs


def test_a_sum_with_a_deadline(embedded, script):
    program, _ = numbered_programs()
    assert "timeout_in_ms=5000" in program
    done = embedded(script(program))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "7.0\n"
    assert "AddV2" in done.stderr


def test_a_product_as_a_timeline(embedded, script, tmp_path):
    _, program = numbered_programs()
    done = embedded("--out", "out", script(program))
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    assert "MatMul" in {event.get("name") for event in events}


def mended_timeline_program():
    program, timeliner = fenced_programs(2)
    # The variable is called `trace` where it is made and `chrome_trace` where it is written.
    return program.replace("f.write(chrome_trace)", "f.write(trace)"), timeliner


def test_a_timeline(embedded, script, tmp_path):
    program, _ = mended_timeline_program()
    done = embedded("--out", "out", script(program))
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    assert {"Add", "AddV2"} & {event.get("name") for event in events}


def test_timelines_merged_by_the_published_class(stepscope, script, tmp_path):
    program, timeliner = mended_timeline_program()
    once = textwrap.indent(
        "run_metadata = tf.RunMetadata()\n"
        "sess.run(res, options=options, run_metadata=run_metadata)\n"
        "trace = timeline.Timeline(run_metadata.step_stats).generate_chrome_trace_format()\n"
        "merged.update_timeline(trace)\n",
        "        ",
    )
    head, _, _ = program.partition("    run_metadata =")
    source = f"{timeliner}\n{head}    merged = TimeLiner()\n    for _ in range(3):\n{once}"
    done = stepscope(
        "run",
        "--engine",
        "embedded",
        "--out",
        "out",
        script(source + "    merged.save('merged.json')\n"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "merged.json\n"
    events = json.loads((tmp_path / "merged.json").read_text())["traceEvents"]
    assert [e["args"]["name"] for e in events if e["ph"] == "X"].count("Add") == 3


def test_a_sum_logged_for_tensorboard(embedded, script, tmp_path):
    program = fenced_programs(3)[0]
    done = embedded("--out", "out", script(program))
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"Time taken: [\d.e-]+ seconds\n", done.stdout)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = EventAccumulator(str(tmp_path / "logs/graph_example")).Reload()
    assert log.Tags()["run_metadata"] == ["run_1"]


# -- asking for the allocations before an out-of-memory ------------------------------------

A_GRAPH_THAT_DOES_NOT_FIT = """
tf.compat.v1.disable_eager_execution()
column = tf.random.uniform([1 << 21, 1], name="column")
row = tf.random.uniform([1, 1 << 26], name="row")
table = tf.multiply(column, row, name="table")
"""


def out_of_memory_program(*, configured):
    """The published pieces around a graph: what they leave to the reader is filled in."""
    basic, parameters, reading = fenced_programs(4)
    plain = "options = tf.compat.v1.RunOptions(report_allocations_on_oom=True)\n"
    assert plain in basic
    if configured:
        set_up, _, _ = parameters.partition("# ...Rest")
        basic = basic.replace(plain, set_up.replace("import tensorflow as tf", ""))
    head, with_session, rest = basic.partition("with tf.compat.v1.Session()")
    assert "sess.run(...," in rest
    return (
        "from stepscope import extract_allocation_log\n"
        + head
        + A_GRAPH_THAT_DOES_NOT_FIT
        + with_session
        + rest.replace("sess.run(...,", "sess.run(table,")
        + reading
    )


@pytest.mark.parametrize(
    ("engine", "configured"),
    [
        (["embedded"], False),
        (["embedded"], True),
        pytest.param(["tensorflow", "--memory"], True, marks=TENSORFLOW),
    ],
    ids=["basic", "configured", "on TensorFlow"],
)
def test_the_allocations_before_an_out_of_memory(stepscope, script, tmp_path, engine, configured):
    name = script(out_of_memory_program(configured=configured))
    done = stepscope("run", "--engine", *engine, "--out", "out", name)
    assert done.returncode == 0, done.stderr
    assert "OOM Error:" in done.stdout
    assert "shape[2097152,67108864] and type float" in done.stdout
    (log,) = re.findall(r"^Allocation Log: (.*)$", done.stdout, re.MULTILINE)
    entries = json.loads(log)
    asked = [entry for entry in entries if entry["event"] == "failed"]
    assert [(entry["op_name"], entry["bytes"]) for entry in asked] == [("table", 4 << 47)]
    # Large allocations are never sampled out.
    held = {entry["op_name"]: entry for entry in entries if entry["event"] == "allocate"}
    assert held["row/RandomUniform"]["shape"] == [1, 1 << 26]
    assert held["row/RandomUniform"]["bytes"] == 4 << 26
    assert held["column/RandomUniform"]["address"] is not None
    read = [line for line in done.stdout.splitlines() if line.startswith("Tensor Shape: ")]
    assert len(read) == len(entries)
    shown = r"Tensor Shape: \[2097152, 67108864\], Dtype: float32, Operation: table, Time: 20.*Z"
    assert any(re.fullmatch(shown, line) for line in read)

    report = stepscope("oom", "--json", "out")
    assert report.returncode == 0, report.stderr
    found = json.loads(report.stdout)
    assert found["request"]["op"] == "table"
    rows = {row["key"]: row["bytes"] for row in found["rows"]}
    assert (rows["row/RandomUniform"], rows["column/RandomUniform"]) == (4 << 26, 4 << 21)
    assert "table" not in rows
    assert sum(rows.values()) == found["live"]
