"""Programs as people published them, unchanged but for plain typos, where the texts are there."""

import json
import re
import textwrap
from pathlib import Path

import pytest

SEEDS = Path(__file__).parents[4] / "shared" / "seeds"

pytestmark = pytest.mark.skipif(not SEEDS.is_dir(), reason="the texts are not there")


def text(number):
    (path,) = SEEDS.glob(f"{number:03d}_*.txt")
    return path.read_text()


def numbered_programs():
    """Programs whose lines were numbered when the page was copied: `1import ...`, `10)`."""
    programs = []
    for block in re.findall(r"^python\n((?:\d+.*\n)+)", text(0), re.MULTILINE):
        lines = [line.removeprefix(str(i)) for i, line in enumerate(block.splitlines(), 1)]
        programs.append("\n".join(lines) + "\n")
    return programs


def fenced_programs(number):
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text(number), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(body) for language, body in blocks if language in ("python", "jsx")]


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
