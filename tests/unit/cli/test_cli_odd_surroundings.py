"""No directory to be in, times at the limits, code without lines, Control-C: nothing breaks."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import stepscope
import stepscope.tf1 as tf
from stepscope.cli.arguments.command_line import run_command_line
from stepscope.cli.script.program import Script
from stepscope.metadata import AllocationColumns, OpColumns, Recording, RunMetadata
from stepscope.own_code import without_ours

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
LEAST, MOST = -(1 << 63), (1 << 63) - 1
COMMANDS = [
    ("info",), ("info", "--json"), ("top",), ("top", "--by", "thread", "--csv"), ("path",),
    ("parallelism",), ("parallelism", "--json"), ("placement",), ("memory",), ("oom",),
    ("network",), ("coverage",), ("timeline", "-o", "{}/t.json"),
    ("timeline", "--tf1", "-o", "{}/t1.json"), ("merge", "-o", "{}/m.json"),
    ("export", "--to", "chrome", "-o", "{}/c.json"), ("export", "--to", "csv", "-o", "{}/c.csv"),
    ("export", "--to", "csv-allocations", "-o", "{}/a.csv"),
    ("export", "--to", "parquet", "-o", "{}/p"), ("export", "--to", "xplane", "-o", "{}/x"),
    ("export", "--to", "tensorboard", "-o", "{}/tb"),
]  # fmt: skip


def timed(*spans):
    """A run whose ops have these (scheduled, start, end)."""
    scheduled, start, end = np.array(spans, np.int64).T
    names = [f"op{i}" for i in range(len(spans))]
    ops = OpColumns.build(
        name=names, op=["Add"] * len(names), device=[CPU] * len(names), scheduled_ns=scheduled,
        start_ns=start, end_ns=end, thread=np.arange(len(names)) % 2 + 1,
    )  # fmt: skip
    allocations = AllocationColumns.build(
        name=names, device=[CPU] * len(names), time_ns=start, bytes=np.full(len(names), 8)
    )
    run = RunMetadata()
    run.record(Recording(engine="x", ops=lambda: ops, allocations=lambda: allocations))
    return run


TIMES = {
    "far apart": [(0, 0, 5), (MOST, MOST, MOST)],
    "all there is": [(LEAST, LEAST, LEAST), (MOST, MOST, MOST)],
    "one op of all time": [(LEAST, LEAST, MOST)],
    "negative": [(-9, -8, -5), (-5, -4, -1)],
    "ends first": [(10, 10, 5), (30, 20, 0)],
    "latest": [(MOST - 9, MOST - 8, MOST - 5), (MOST, MOST, MOST)],
    "earliest": [(LEAST, LEAST, LEAST + 5), (LEAST + 1, LEAST + 2, LEAST + 9)],
    "ready after it ran": [(MOST, 1, 2), (LEAST, 3, 4)],
    "nothing": [(0, 0, 0)],
}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("times", TIMES)
def test_times_at_the_limits(times, command, tmp_path, capsys):
    timed(*TIMES[times]).save(tmp_path / "run_metadata.pb")
    arguments = [part.format(tmp_path) for part in command]
    code = run_command_line([arguments[0], str(tmp_path / "run_metadata.pb"), *arguments[1:]])
    said = capsys.readouterr()
    assert "error of Stepscope's own" not in said.err
    assert "Warning" not in said.err
    assert code in (0, 2)


@pytest.mark.parametrize("times", TIMES)
def test_times_at_the_limits_in_notebooks(times):
    from stepscope.analysis import critical_path, memory_profile, op_profile, parallelism

    run = timed(*TIMES[times])
    for shown in (run, *(a(run) for a in (critical_path, memory_profile, op_profile, parallelism))):
        assert shown._repr_html_()
    assert repr(run)


def test_times_too_far_apart_for_a_trace_are_said(tmp_path, capsys):
    timed(*TIMES["far apart"]).save(tmp_path / "run_metadata.pb")
    for command in (("timeline",), ("merge",), ("export", "--to", "chrome")):
        arguments = [command[0], str(tmp_path / "run_metadata.pb"), *command[1:]]
        assert run_command_line([*arguments, "-o", str(tmp_path / "t.json")]) == 2
        said = capsys.readouterr().err
        assert "years apart or more, which no trace can show" in said
        assert said.count("\n") <= 2


@pytest.fixture
def nowhere(tmp_path):
    """Call a command in a directory that was removed; gives the finished process."""

    def run(*arguments):
        code = (
            "import os, sys, tempfile; place = tempfile.mkdtemp(); os.chdir(place); "
            "os.rmdir(place); from stepscope.cli import main; main(sys.argv[1:])"
        )
        # As an installed command has it, the directory is not on the path: CPython 3.13.0 cannot
        # import NumPy where the path begins with a directory that is gone.
        return subprocess.run(
            [sys.executable, "-P", "-c", code, *map(str, arguments)],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    return run


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if c[0] not in ("oom", "coverage", "memory")], ids=" ".join
)
def test_a_working_directory_that_was_removed(command, nowhere, tmp_path):
    timed((0, 0, 5), (5, 6, 9)).save(tmp_path / "run_metadata.pb")
    arguments = [part.format(tmp_path) for part in command]
    done = nowhere(arguments[0], tmp_path / "run_metadata.pb", *arguments[1:])
    assert (done.returncode, done.stderr) == (0, "")


def test_relative_paths_in_a_directory_that_was_removed(nowhere, tmp_path):
    timed((0, 0, 5)).save(tmp_path / "run_metadata.pb")
    script = tmp_path / "s.py"
    script.write_text("print('ran')")
    for arguments in (
        ("info", "somewhere"), ("run", "s.py"), ("run", "--engine", "embedded", script),
        ("export", "--to", "csv", tmp_path / "run_metadata.pb"),
        ("timeline", tmp_path / "run_metadata.pb"), ("coverage", "x"), ("diff", "a", "b"),
    ):  # fmt: skip
        done = nowhere(*arguments)
        assert done.returncode == 2
        assert "error of Stepscope's own" not in done.stderr
        assert done.stderr.startswith("stepscope: error: ")
    done = nowhere("run", "--engine", "embedded", "--out", tmp_path / "out", script)
    assert (done.returncode, done.stdout) == (0, "ran\n")


def test_a_traceback_whose_entries_have_no_line(tmp_path):
    def fail():
        raise KeyboardInterrupt

    bare = fail.__code__.replace(co_linetable=b"")
    fail.__code__ = bare
    try:
        fail()
    except KeyboardInterrupt as error:
        trace = error.__traceback__
    assert trace.tb_next.tb_lineno is None
    shown = without_ours(trace)
    assert shown is trace
    assert shown.tb_next.tb_frame.f_code is bare


def test_a_traceback_deeper_than_a_function_can_call_itself(tmp_path, capsys):
    script = tmp_path / "deep.py"
    script.write_text("def f():\n    f()\nf()\n")
    kept = sys.modules["__main__"], sys.argv[:], sys.path[:]
    try:
        assert Script(str(script)).run(()) == 1
    finally:
        sys.modules["__main__"], sys.argv[:], sys.path[:] = kept
    assert "RecursionError" in capsys.readouterr().err


def test_code_without_line_numbers_makes_ops():
    code = compile("y = tf.square(tf.constant(3.0))", "made.py", "exec")
    names = {"tf": tf}
    with tf.Graph().as_default(), tf.Session() as session:
        exec(code.replace(co_linetable=b""), names)
        metadata = stepscope.RunMetadata()
        options = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
        assert session.run(names["y"], options=options, run_metadata=metadata) == 9.0
    assert set(metadata.sources.values()) == {"made.py:1"}
    assert RunMetadata.FromString(metadata.SerializeToString()).sources == metadata.sources


def test_control_c_while_recording_ends_with_130(tmp_path):
    script = tmp_path / "waits.py"
    script.write_text(
        "import signal, sys\n"
        "import stepscope.tf1 as tf\n"
        "s = tf.Session()\n"
        "s.run(tf.constant(1.0))\n"
        "print('ready', flush=True)\n"
        "while True: s.run(tf.constant(1.0))\n"
    )
    out = tmp_path / "out"
    command = [sys.executable, "-m", "stepscope", "run", "--engine", "embedded", "--trace", "none"]
    running = subprocess.Popen(
        [*command, "--limit", "3", "--out", str(out), str(script)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ},
    )  # fmt: skip
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "KeyboardInterrupt" in said
    assert "error of Stepscope's own" not in said
    assert list(out.glob("*.stepscope"))


def test_every_encoding_of_a_files_name(tmp_path, capsys):
    names = [b"\xff", b"a\nb", b"a\x1bb", "ü".encode(), b" ", b"=x", b"-x"]
    for name, command in itertools.product(names, COMMANDS):
        file = tmp_path / os.fsdecode(name) / "run_metadata.pb"
        if not file.exists():
            timed((0, 0, 5)).save(file)
        arguments = [part.format(file.parent) for part in command]
        code = run_command_line([arguments[0], str(file), *arguments[1:]])
        said = capsys.readouterr()
        assert "error of Stepscope's own" not in said.err, (name, command)
        assert code in (0, 2)
