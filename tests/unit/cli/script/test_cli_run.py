"""`stepscope run`: the script stays as it was, its runs are written, the table is on stderr."""

import json
import re
import signal
import subprocess
import sys

import pytest

from patience import patient
from stepscope.metadata import RunMetadata, iter_runs, load

SUM = """\
import tensorflow as tf
total = tf.add(tf.constant([1.0, 2.0], name="a"), tf.constant([3.0, 4.0], name="b"), name="total")
with tf.Session() as session:
    print(session.run(total))
"""


def saved(directory):
    """The runs in the one store that a recording writes."""
    (store,) = directory.glob("runs-*")
    return [run.name for run in iter_runs(store)]


def test_a_script_is_run_recorded_and_reported(embedded, script, tmp_path):
    done = embedded("--out", "out", script(SUM))

    assert done.returncode == 0, done.stderr
    assert done.stdout == "[4. 6.]\n"
    assert saved(tmp_path / "out") == ["run_000001"]
    (metadata,) = load(tmp_path / "out")
    assert "total" in metadata.ops.name.tolist()
    assert metadata.status.code == "OK"
    trace = json.loads((tmp_path / "out/timeline.json").read_text())
    assert any("total" in json.dumps(event) for event in trace["traceEvents"])

    import numpy

    assert f"engine: embedded (NumPy {numpy.__version__})" in done.stderr
    assert "1 run ·" in done.stderr
    assert "AddV2" in done.stderr
    (store,) = (tmp_path / "out").glob("*.stepscope")
    assert f"wrote  out/{store.name}  (stepscope info out lists its runs)" in done.stderr
    assert "out/timeline.json" in done.stderr


def test_the_default_directory_is_named_after_the_script(embedded, script, tmp_path):
    assert embedded(script(SUM, "deep/model.py")).returncode == 0
    assert saved(tmp_path / "stepscope-out/model") == ["run_000001"]


def test_the_directory_is_where_the_command_was_called(embedded, script, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    source = "import os\nos.chdir('elsewhere')\n" + SUM
    assert embedded("--out", "out", script(source)).returncode == 0
    assert saved(tmp_path / "out") == ["run_000001"]
    assert (tmp_path / "out/timeline.json").exists()


def test_an_earlier_recording_is_replaced_and_nothing_else(embedded, script, tmp_path):
    several = SUM + "    session.run(total)\n    session.run(total)\n"
    embedded("--out", "out", script(several))
    assert saved(tmp_path / "out") == ["run_000001", "run_000002", "run_000003"]
    # As earlier versions wrote them, and `--pb` does.
    for number in (2, 3):
        RunMetadata().save(tmp_path / f"out/run_00000{number}/run_metadata.pb")
    (tmp_path / "out/run_000002/notes.txt").write_text("mine")

    embedded("--out", "out", script(SUM))
    assert saved(tmp_path / "out") == ["run_000001"]
    assert len(load(tmp_path / "out")) == 1
    assert (tmp_path / "out/run_000002/notes.txt").read_text() == "mine"
    assert not (tmp_path / "out/run_000003").exists()


FACTS = """\
import sys, pickle
class Thing: pass
print(sys.argv)
print(sys.path[0])
print(__file__, __name__, __spec__, __package__)
print(pickle.loads(pickle.dumps(Thing())).__class__ is Thing)
print(sys.modules["__main__"].Thing is Thing)
"""


def test_the_script_sees_what_python_would_show_it(embedded, script, tmp_path):
    name = script(FACTS, "inner/facts.py")
    arguments = ["--trace", "x", "-h", "--", "--out=y", "two words"]
    plain = subprocess.run(
        [sys.executable, name, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    ours = embedded(name, *arguments)
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout == plain.stdout


def test_a_script_imports_its_neighbours(stepscope, script):
    script("VALUE = 7\n", "inner/neighbour.py")
    done = stepscope(
        "run",
        "--engine",
        "embedded",
        script("from neighbour import VALUE\nprint(VALUE)\n", "inner/main.py"),
    )
    assert done.stdout == "7\n"


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("sys.exit()", 0),
        ("sys.exit(3)", 3),
        ("sys.exit('out of ideas')", 1),
        ("raise ValueError('no')", 1),
    ],
)
def test_exit_codes_are_the_scripts(embedded, script, tmp_path, end, code):
    name = script(f"import sys\n{SUM}{end}\n")
    done = embedded("--out", "out", name)
    assert done.returncode == code
    assert done.stdout == "[4. 6.]\n"
    assert saved(tmp_path / "out") == ["run_000001"]
    assert "AddV2" in done.stderr
    if "ideas" in end:
        assert "out of ideas\n" in done.stderr


def test_a_traceback_begins_in_the_script(embedded, script, tmp_path):
    source = "def inner():\n    raise ValueError('no')\ninner()\n"
    done = embedded(script(source))
    plain = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert plain.returncode == done.returncode == 1
    assert done.stderr.startswith(plain.stderr)


def test_a_syntax_error_is_shown_as_python_shows_it(embedded, script, tmp_path):
    done = embedded(script("x = 1\ndef f(:\n"))
    plain = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert plain.returncode == done.returncode == 1
    assert "SyntaxError" in plain.stderr
    assert done.stderr.startswith(plain.stderr)


def test_a_scripts_own_excepthook_is_used(embedded, script):
    source = (
        "import sys\nsys.excepthook = lambda *e: print('mine:', e[1])\nraise ValueError('no')\n"
    )
    done = embedded(script(source))
    assert done.returncode == 1
    assert done.stdout == "mine: no\n"
    assert "Traceback" not in done.stderr


FAILING = """\
import tensorflow as tf
index = tf.placeholder(tf.int32, [], name="index")
picked = tf.gather(tf.constant([1.0, 2.0]), index, name="picked")
with tf.Session() as session:
    session.run(picked, {index: 0})
    session.run(picked, {index: 5})
"""


def test_runs_of_a_failing_script_are_written_the_failed_one_too(embedded, script, tmp_path):
    done = embedded("--out", "out", script(FAILING))
    assert done.returncode == 1
    assert "InvalidArgumentError" in done.stderr
    _, _, stack = done.stderr.partition("Original stack trace for ")
    places = [line for line in stack.splitlines() if line.startswith("  File ")]
    assert places
    assert all("program.py" in place for place in places), "what started it is left out"
    assert saved(tmp_path / "out") == ["run_000001", "run_000002"]
    assert [run.status.code for run in load(tmp_path / "out")] == ["OK", "INVALID_ARGUMENT"]
    assert "1 run failed" in done.stderr
    assert "run_000002  INVALID_ARGUMENT" in done.stderr
    assert (tmp_path / "out/timeline.json").exists()


UNTIL_THE_END = """\
import tensorflow as tf
queue = tf.FIFOQueue(4, tf.float32)
enqueue, close, item = queue.enqueue_many([[1.0, 2.0]]), queue.close(), queue.dequeue()
with tf.Session() as session:
    session.run(enqueue)
    session.run(close)
    try:
        while True:
            print(session.run(item))
    except tf.errors.OutOfRangeError:
        print("done")
"""


def test_the_end_of_an_input_is_no_failure_of_a_program_that_went_on(embedded, script, tmp_path):
    done = embedded("--out", "out", script(UNTIL_THE_END))
    assert (done.returncode, done.stdout) == (0, "1.0\n2.0\ndone\n"), done.stderr
    assert "failed" not in done.stderr.partition("recording cost")[0]
    assert "1 run found no more input (OUT_OF_RANGE), and the program went on: run_000005" in (
        " ".join(done.stderr.split())
    )
    assert [run.status.code for run in load(tmp_path / "out")][-1] == "OUT_OF_RANGE"


def test_the_end_of_an_input_that_ends_the_program_is_a_failure(embedded, script):
    done = embedded(script(UNTIL_THE_END.replace("OutOfRangeError", "AbortedError")))
    assert done.returncode == 1
    assert "1 run failed" in done.stderr
    assert "run_000005  OUT_OF_RANGE" in done.stderr
    assert "the program went on" not in done.stderr


def test_ctrl_c_still_writes(script, tmp_path):
    name = script(SUM + "    print('ready', flush=True)\n    import time\n    time.sleep(60)\n")
    with subprocess.Popen(
        [sys.executable, "-m", "stepscope", "run", "--engine", "embedded", "--out", "out", name],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while process.stdout.readline() != "ready\n":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=patient(60))
    assert process.returncode == 130
    assert "KeyboardInterrupt" in errors
    assert "AddV2" in errors
    assert saved(tmp_path / "out") == ["run_000001"]


OWN = """\
import tensorflow as tf
total = tf.add(tf.constant(1.0), 2.0, name="total")
metadata = tf.RunMetadata()
with tf.Session() as session:
    LEVEL = tf.RunOptions.{level}
    session.run(total, options=tf.RunOptions(trace_level=LEVEL), run_metadata=metadata)
    session.run(total)
print(sum(len(device.node_stats) for device in metadata.step_stats.dev_stats) > 0)
"""

TRACES = ["none", "software", "hardware", "full"]


@pytest.mark.parametrize("trace", TRACES)
def test_what_the_script_asked_for_it_gets(stepscope, script, tmp_path, trace):
    source = OWN.format(level="FULL_TRACE")
    done = stepscope(
        "run", "--engine", "embedded", "--trace", trace, "--out", "out", script(source)
    )
    assert done.stdout == "True\n", done.stderr
    runs = load(tmp_path / "out")
    assert [len(run.ops) > 0 for run in runs] == [True, trace != "none"]


@pytest.mark.parametrize("trace", TRACES)
def test_metadata_that_asked_for_no_trace_stays_empty(stepscope, script, trace):
    source = OWN.format(level="NO_TRACE")
    done = stepscope(
        "run", "--engine", "embedded", "--trace", trace, "--out", "out", script(source)
    )
    assert done.stdout == "False\n", done.stderr


def test_no_trace_is_said(embedded, script):
    done = embedded("--trace", "none", script(SUM))
    assert "no op was traced: --trace none" in done.stderr


def test_a_limit(embedded, script, tmp_path):
    source = SUM + "    [session.run(total) for _ in range(9)]\n"
    done = embedded("--limit", "4", "--out", "out", script(source))
    assert done.returncode == 0
    assert saved(tmp_path / "out") == [f"run_00000{i}" for i in (1, 2, 3, 4)]
    assert "recording ended after 4 (--limit)" in done.stderr


def test_top_rows(embedded, script):
    done = embedded("--top", "1", script(SUM))
    assert re.search(r"and \d more op types in .* \(--top shows more\)", done.stderr)
    assert "Const" not in done.stderr


def test_a_script_without_runs(embedded, script):
    done = embedded(script("print('hello')\n"))
    assert (done.returncode, done.stdout) == (0, "hello\n")
    said = done.stderr.split("trace: full\n\n")[1].splitlines()
    assert said[0] == "no run was recorded: the script ended well and made none"
    assert said[1].startswith("a run is a call of Session.run; ")
    assert said[2].startswith("arguments after SCRIPT are passed on to it; ")


@pytest.mark.parametrize(
    ("end", "code"),
    [("raise ValueError('bad')", 1), ("sys.exit(3)", 3), ("sys.exit('no data')", 1)],
)
def test_a_script_that_fails_before_its_first_run(embedded, script, end, code):
    done = embedded(script(f"import sys\n{end}\n"))
    assert done.returncode == code
    assert (
        f"no run was recorded: the script failed (exit code {code}) before it made one"
        in done.stderr
    )


def test_steps_that_the_script_never_came_to(embedded, script):
    done = embedded("--steps", "7:9", script(SUM), columns=200)
    assert done.returncode == 0
    assert "no run was recorded: the script made 1 run, none of which --steps" in done.stderr


THREADS = """\
import threading
import tensorflow as tf
total = tf.add(tf.constant(1.0), 2.0)
session = tf.Session()
go = threading.Event()
def work():
    go.wait()
    for _ in range(5):
        session.run(total)
for _ in range(4):
    threading.Thread(target=work).start()
threading.Timer(0.2, go.set).start()
"""


def test_runs_of_threads_that_outlive_the_script(embedded, script, tmp_path):
    done = embedded("--out", "out", script(THREADS))
    assert done.returncode == 0, done.stderr
    assert len(saved(tmp_path / "out")) == 20
    assert "20 runs ·" in done.stderr


def test_a_fork_is_not_recorded(embedded, script, tmp_path):
    fork = "import os\n    child = os.fork()\n    if child:\n        os.waitpid(child, 0)\n"
    source = SUM.replace("    print(", f"    {fork}    print(")
    done = embedded("--out", "out", script(source))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[4. 6.]\n" * 2
    assert saved(tmp_path / "out") == ["run_000001"]
    assert done.stderr.count("engine: embedded") == 1


def test_a_missing_attribute_reaches_the_user(stepscope, script):
    done = stepscope(
        "run", "--engine", "embedded", script("import tensorflow as tf\ntf.sesion()\n")
    )
    assert done.returncode == 1
    assert "has no attribute 'sesion'; close: " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "nowhere.py"], "there is no script nowhere.py"),
        (["run", "."], ". is a directory"),
        (["run"], "Missing argument 'SCRIPT'"),
        (["run", "--trace", "loud", "x.py"], "'loud' is not one of"),
        (["run", "--out", "taken", "program.py"], "the output directory taken cannot be used"),
        (["program.py"], "to run a script: stepscope run program.py"),
        (["rum"], "rum is no command; did you mean run?"),
        (["info", "nowhere.pb"], "nowhere.pb"),
    ],
)
def test_usage_errors(stepscope, script, tmp_path, arguments, says):
    script(SUM)
    (tmp_path / "taken").write_text("a file")
    done = stepscope(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "stepscope: error: " in done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_an_output_that_cannot_be_written_any_more(embedded, script, tmp_path):
    source = "import shutil, os\n" + SUM
    source += "    shutil.rmtree('out'); open('out', 'w').close()\n    print(session.run(total))\n"
    done = embedded("--out", "out", script(source))
    assert done.stdout == "[4. 6.]\n" * 2
    assert done.returncode == 2
    assert "stepscope: error: " in done.stderr
    assert "Traceback" not in done.stderr


def test_help_and_version(stepscope):
    from importlib.metadata import version

    assert stepscope("--version").stdout == f"stepscope {version('stepscope')}\n"
    for arguments in ([], ["--help"], ["-h"]):
        shown = stepscope(*arguments)
        assert shown.returncode == 0
        assert "run" in shown.stdout
        assert "Example: stepscope run" in shown.stdout
    assert "--engine [embedded|tensorflow]" in stepscope("run", "--help").stdout


def test_info(embedded, stepscope, script):
    embedded("--out", "out", script(FAILING))
    fine = stepscope("info", "out", "--run", 0)
    assert fine.returncode == 0, fine.stderr
    lines = [line.split(maxsplit=1) for line in fine.stdout.splitlines()]
    facts = {line[0]: line[1].strip() for line in lines if len(line) == 2}
    assert facts["engine"] == "embedded"
    assert facts["status"] == "OK"
    assert facts["device"].startswith("CPU:0")
    assert "of" in facts["ops"]

    failed = stepscope("info", "out", "--run", 1).stdout
    assert "INVALID_ARGUMENT" in failed


def test_info_of_something_else(stepscope, tmp_path):
    (tmp_path / "noise.pb").write_bytes(b"\xff" * 100)
    done = stepscope("info", "noise.pb")
    assert done.returncode == 2
    assert done.stderr.startswith("stepscope: error: ")
