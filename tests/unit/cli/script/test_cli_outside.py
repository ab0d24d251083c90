"""`stepscope run` stands outside the script's process: it reports whatever happens to that.

Real processes, real signals, a real terminal. Each test waits for a line of the script, never for
a time.
"""

from __future__ import annotations

import base64
import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from patience import patient
from stepscope.metadata import load
from stepscope.web.frames import decoded
from stored_notes import UNTIL_NOTED

RUNS = """\
import os, signal, sys, time
import tensorflow as tf
total = tf.add(tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0]), name="total")
session = tf.Session()
for _ in range(3):
    session.run(total)
"""
READY = "print('ready', os.getpid(), flush=True)\n"
WAIT = READY + "while True:\n    time.sleep(60)\n"


@pytest.fixture
def start(tmp_path):
    """Start `stepscope run` on a script's text; what is left of it at the end is killed."""
    started = []

    def begin(source, *arguments, engine="embedded", **options):
        (tmp_path / "program.py").write_text(source)
        command = [sys.executable, "-m", "stepscope", "run", "--engine", engine, "--out", "out"]
        pipes = {name: subprocess.PIPE for name in ("stdout", "stderr") if name not in options}
        process = subprocess.Popen(
            [*command, *arguments, "program.py"], cwd=tmp_path, text=True,
            env={**os.environ, "COLUMNS": "200"}, **pipes, **options,
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.communicate()


def script_of(process):
    """Wait until the script is ready; its process."""
    line = process.stdout.readline()
    assert line.startswith("ready "), (line, process.stderr.read())
    return int(line.split()[1])


def end_of(process):
    """The exit code, and what was said on standard error."""
    _, said = process.communicate(timeout=patient(240))
    return process.returncode, said


def state_of(process):
    """Its state in one letter, as `ps` has it."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def is_gone(process):
    """Wait until there is no such process, or it waits to be buried."""
    for _ in range(round(patient(60) * 20)):
        try:
            if state_of(process) in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


DEATHS = {
    "os.kill(os.getpid(), signal.SIGKILL)": (-9, "the script was killed by SIGKILL "),
    "import ctypes; ctypes.string_at(0)": (-11, "the script was killed by SIGSEGV "),
    "os.abort()": (-6, "the script was killed by SIGABRT "),
    "os._exit(3)": (3, "the script ended with exit code 3 past all exit handlers "),
    "os._exit(0)": (0, "the script ended with exit code 0 past all exit handlers "),
    "os.execl('/bin/true', 'true')": (0, "the script ended with exit code 0 past all "),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_script_that_dies_is_reported(start, tmp_path, death):
    code, said = end_of(start(RUNS + death + "\n"))
    assert code == DEATHS[death][0]
    report = said[said.index("\nthe script ") :].splitlines()
    assert report[1].startswith(DEATHS[death][1])
    assert report[3] == "stepscope program.py"
    assert "engine: embedded (NumPy " in report[4]
    assert "3 runs ·" in report[4]
    assert "AddV2" in said
    assert "wrote  out/runs-" in said
    assert (tmp_path / "out/timeline.json").exists()
    assert [run.status.code for run in load(tmp_path / "out")] == ["OK"] * 3


def test_a_death_is_told_by_the_clock_of_what_came_before_it(start):
    dies = "until_noted()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    _, said = end_of(start(RUNS + UNTIL_NOTED + dies))
    (lived,) = re.findall(r"the script was killed by SIGKILL .*, after (.*)\n", said)
    (whole,) = re.findall(r"^([\d.]+ m?s): .* imports, ", said, re.MULTILINE)
    assert lived == whole


def test_the_page_that_was_asked_for_is_written_for_a_script_that_is_killed(start, tmp_path):
    code, said = end_of(start(RUNS + "os.kill(os.getpid(), signal.SIGKILL)\n", "--report"))
    assert code == -signal.SIGKILL
    assert "       out/report.html\n" in said
    page = (tmp_path / "out/report.html").read_text()
    found = re.search(r'data-resource="runs">([^<]*)<', page)
    runs = decoded(zlib.decompress(base64.b64decode(found[1])))
    assert runs["name"] == ["run_000001", "run_000002", "run_000003"]


def test_kill_9_in_the_midst_of_a_run(start, stepscope, tmp_path):
    source = RUNS + (
        "def never(x):\n    " + READY + "    while True:\n        time.sleep(60)\n"
        "session.run(tf.py_func(never, [total], tf.float32))\n"
    )
    process = start(source)
    os.kill(script_of(process), signal.SIGKILL)
    code, said = end_of(process)
    assert code == -signal.SIGKILL
    assert "the script was killed by SIGKILL" in said
    assert "in flight  PyFunc (in run_000004)" in said
    *ended, under_way = load(tmp_path / "out")
    assert [run.status.code for run in ended] == ["OK"] * 3
    assert (under_way.status.code, under_way.status.in_flight) == ("ABORTED", ["PyFunc"])
    assert under_way.ops.name.tolist() == ["total"]
    assert not under_way.completeness.complete
    told = stepscope("info", "out").stdout
    assert "4 runs in out" in told
    assert "0 steps" not in told


def test_a_script_that_dies_before_its_first_run(start, tmp_path):
    (tmp_path / "out/run_000001").mkdir(parents=True)
    (tmp_path / "out/run_000001/run_metadata.pb").write_bytes(b"")
    code, said = end_of(start("import os\nos.abort()\n"))
    assert code == -signal.SIGABRT
    assert "no run was recorded: the script died before one had ended" in said
    assert "wrote" not in said


def test_a_crash_after_the_report_is_one_line(start):
    process = start(RUNS + "import atexit\natexit.register(os.abort)\n")
    code, said = end_of(process)
    assert code == -signal.SIGABRT
    assert said.count("engine: embedded") == 1
    assert "stepscope: after this report, its process was killed by SIGABRT" in said


@pytest.mark.parametrize("to", ["script", "parent", "group"])
def test_sigterm_ends_the_script_and_all_is_written(start, tmp_path, to):
    process = start(RUNS + WAIT, start_new_session=True)
    script = script_of(process)
    if to == "group":
        os.killpg(process.pid, signal.SIGTERM)
    else:
        os.kill(script if to == "script" else process.pid, signal.SIGTERM)
    code, said = end_of(process)
    assert code == -signal.SIGTERM
    assert "the script was killed by SIGTERM (somebody asked it to end)" in said
    assert "3 runs ·" in said
    assert len(load(tmp_path / "out")) == 3


def test_sigterm_ends_a_script_that_is_busy_in_native_code(start, tmp_path):
    # A mutex that is locked twice: the call never returns, so that Python calls no handler.
    source = RUNS + "import ctypes\nlock = ctypes.CDLL(None).pthread_mutex_lock\n" + READY
    source += "mutex = ctypes.create_string_buffer(64)\nlock(mutex), lock(mutex)\n"
    process = start(source)
    os.kill(script_of(process), signal.SIGTERM)
    code, said = end_of(process)
    assert code == -signal.SIGTERM
    assert "3 runs ·" in said


OWN_HANDLER = """\
count = 0
def came(number, frame):
    global count
    count += 1
    print("got", signal.Signals(number).name, flush=True)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
    assert signal.getsignal(number) == signal.SIG_DFL
    signal.signal(number, came)
print("ready", os.getpid(), flush=True)
import select
line = ""
while line is not None:
    # Not in a read: a signal that comes just before one would be handled when that returns.
    if select.select([sys.stdin], [], [], 0.05)[0]:
        line = sys.stdin.readline() or None
        if line:
            print("heard", line.strip(), count, flush=True)
print("count", count)
sys.exit(7)
"""


@pytest.mark.parametrize("to", ["parent", "group"])
def test_signals_reach_a_scripts_own_handler_once(start, to):
    process = start(RUNS + OWN_HANDLER, stdin=subprocess.PIPE, start_new_session=True)
    script_of(process)
    send = os.killpg if to == "group" else os.kill
    for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGTERM"):
        send(process.pid, getattr(signal, name))
        assert process.stdout.readline() == f"got {name}\n"
    process.stdin.write("hello\n")
    process.stdin.flush()
    assert process.stdout.readline() == "heard hello 6\n"
    out, said = process.communicate(timeout=patient(240))
    assert (process.returncode, out) == (7, "count 6\n")
    assert "engine: embedded" in said


def test_signals_that_are_ignored_stay_so(start):
    source = "import signal, sys\nprint(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)\n"
    process = start(source, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert process.communicate(timeout=patient(240))[0] == "True\n"


def test_the_script_dies_with_the_parent(start):
    process = start(RUNS + WAIT)
    script = script_of(process)
    process.kill()
    assert is_gone(script)
    process.communicate(timeout=patient(60))  # nobody holds the pipes any more


FACTS = """\
import atexit, multiprocessing, os, sys, threading, time
print(sys.argv, __name__, os.path.basename(sys.path[0]), __file__.endswith("program.py"))
names = [t.name for t in threading.enumerate() if not t.name.startswith('stepscope')]
print(names, os.getpgrp() == os.getpgid(os.getppid()))
def work(queue):
    import signal
    queue.put((signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, signal.set_wakeup_fd(-1)))
if __name__ == "__main__":
    atexit.register(print, "at exit")
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=work, args=(queue,))
        process.start()
        print(method, queue.get())
        process.join()
        lasting = context.Process(target=time.sleep, args=(600,))
        lasting.start()
        lasting.terminate()
        lasting.join()
        print(lasting.exitcode)
    threading.Thread(target=lambda: print("thread", sys.stdin.read())).start()
"""


def test_the_script_is_where_it_would_be_without_us(start, tmp_path):
    process = start(FACTS, stdin=subprocess.PIPE)
    out, said = process.communicate("piped", timeout=patient(240))
    plain = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, input="piped", capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert process.returncode == 0, said
    assert out.splitlines() == plain.stdout.splitlines()


@pytest.mark.parametrize(("end", "code"), [("", 0), ("1/0", 1), ("sys.exit(3)", 3),
                                           ("sys.exit('text')", 1)])  # fmt: skip
def test_exit_codes(start, end, code):
    ended, said = end_of(start(RUNS + end + "\n"))
    assert ended == code
    assert said.count("engine: embedded") == 1
    assert "the script was" not in said
    assert ("text\n" in said) == ("text" in end)


def test_output_that_the_script_closes_is_closed(start):
    process = start(RUNS + "os.close(1)\nsys.stdin.read()\n", stdin=subprocess.PIPE)
    assert process.stdout.read() == ""
    assert process.poll() is None
    assert end_of(process)[0] == 0


def test_in_process_there_is_no_other(start):
    process = start(RUNS + READY, "--in-process")
    assert script_of(process) == process.pid
    assert end_of(process)[0] == 0


class Terminal:
    """A terminal in which a shell with job control could have started the command."""

    def __init__(self):
        self.ours, self.theirs = pty.openpty()
        self._seen = ""

    def await_text(self, pattern):
        """Read until the terminal shows it; the match."""
        while not (found := re.search(pattern, self._seen)):
            ready, _, _ = select.select([self.ours], [], [], patient(240))
            assert ready, self._seen
            assert not re.search("job ended.*\n", self._seen), self._seen
            self._seen += os.read(self.ours, 4096).decode()
        self._seen = self._seen[found.end() :]
        return found

    def type(self, text):
        os.write(self.ours, text.encode())

    def close(self):
        for fd in (self.ours, self.theirs):
            with contextlib.suppress(OSError):
                os.close(fd)


@pytest.fixture
def terminal():
    made = Terminal()
    yield made
    made.close()


ON_TERMINAL = """\
import fcntl, os, pty, signal, sys, termios
# A session with this terminal, and the command as its foreground job, as a shell does it.
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if not job:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, "-m", "stepscope", *sys.argv[1:]])
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        os.tcsetpgrp(0, os.getpgrp())
        print("job stopped", os.WSTOPSIG(status), flush=True)
        input()
        os.tcsetpgrp(0, job)
        os.killpg(job, signal.SIGCONT)
    else:
        break
print("job ended", os.waitstatus_to_exitcode(status), flush=True)
"""


@pytest.fixture
def shell(terminal, tmp_path):
    """Start a script as the foreground job of a terminal; gives the terminal."""
    started = []

    def begin(source):
        (tmp_path / "program.py").write_text(source)
        started.append(
            subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    ON_TERMINAL,
                    "run",
                    "--engine",
                    "embedded",
                    "--out",
                    "out",
                    "program.py",
                ],
                cwd=tmp_path,
                stdin=terminal.theirs,
                stdout=terminal.theirs,
                stderr=terminal.theirs,
            )
        )
        return terminal

    yield begin
    for process in started:
        process.kill()
        process.wait()


INTERRUPTED = """\
import select
count = 0
while True:
    try:
        if not count:
            print("ready", flush=True)
        # Python sees a signal that comes just before it waits only when it has waited.
        while not select.select([0], [], [], 0.05)[0]:
            pass
        print("line", input(), flush=True)
    except KeyboardInterrupt:
        count += 1
        print("interrupted", count)
        if count == 2:
            raise
"""


def test_control_c_interrupts_the_script_once(shell):
    terminal = shell(RUNS + INTERRUPTED)
    terminal.await_text("ready")
    terminal.type("\x03")
    terminal.await_text("interrupted 1")
    terminal.type("abc\n")
    terminal.await_text("line abc")
    terminal.type("\x03")
    terminal.await_text("interrupted 2")
    terminal.await_text("KeyboardInterrupt")
    terminal.await_text("3 runs")
    terminal.await_text("job ended 130")


def test_control_z_stops_and_the_shell_continues(shell):
    source = RUNS + "print('tty', sys.stdin.isatty(), sys.stdout.isatty())\n" + READY
    source += "while (line := input()) != 'end': print('line', line, flush=True)\n"
    terminal = shell(source)
    terminal.await_text("tty True True")
    terminal.await_text("ready")
    for _ in range(2):
        terminal.type("\x1a")
        terminal.await_text(f"job stopped {int(signal.SIGSTOP)}")
        terminal.type("\n")
        terminal.type("abc\n")
        terminal.await_text("line abc")
    terminal.type("end\n")
    terminal.await_text("job ended 0")


def test_the_parent_never_stops_before_the_script(start):
    """Of a script that hardly gets a processor, continued and stopped again at once."""
    process = start(RUNS + WAIT, process_group=0)
    script = script_of(process)
    one = min(os.sched_getaffinity(0))
    busy = subprocess.Popen(
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{one}}})\nwhile True: pass"]
    )
    try:
        os.sched_setaffinity(script, {one})
        os.sched_setscheduler(script, os.SCHED_IDLE, os.sched_param(0))
        os.kill(script, signal.SIGSTOP)
        for _ in range(20):
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            assert state_of(script) == "T"
            os.killpg(process.pid, signal.SIGCONT)
            os.killpg(process.pid, signal.SIGTSTP)
    finally:
        busy.kill()
        busy.wait()


def test_control_backslash_kills_the_script_and_the_parent_alike(shell):
    terminal = shell(RUNS + WAIT)
    terminal.await_text("ready")
    terminal.type("\x1c")
    terminal.await_text("the script was killed by SIGQUIT")
    terminal.await_text(f"job ended -{int(signal.SIGQUIT)}")


def test_the_parent_goes_on_with_the_script(start):
    process = start(RUNS + READY + "print(input(), flush=True)\n", stdin=subprocess.PIPE)
    script = script_of(process)
    os.kill(script, signal.SIGSTOP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert os.WSTOPSIG(status) == signal.SIGSTOP
    os.kill(process.pid, signal.SIGCONT)
    process.stdin.write("on\n")
    process.stdin.flush()
    assert process.stdout.readline() == "on\n"
    assert end_of(process)[0] == 0


def test_the_parent_loads_no_numpy_while_the_script_runs(start):
    process = start(RUNS + WAIT)
    script = script_of(process)
    assert "numpy" in Path(f"/proc/{script}/maps").read_text()
    assert "numpy" not in Path(f"/proc/{process.pid}/maps").read_text()
    process.terminate()
    assert end_of(process)[0] == -signal.SIGTERM


ON_TENSORFLOW = """\
import os, signal, sys, time
import tensorflow as tf

@tf.function
def step(x):
    return tf.tanh(tf.matmul(x, x))

x = tf.eye(8)
for _ in range(5):
    step(x)
"""


@pytest.mark.tensorflow
def test_sigterm_writes_what_tensorflow_ran(start, tmp_path, tensorflow):
    del tensorflow
    process = start(ON_TENSORFLOW + WAIT, engine="tensorflow")
    os.kill(script_of(process), signal.SIGTERM)
    code, said = end_of(process)
    assert code == -signal.SIGTERM
    assert "the script was killed by SIGTERM" in said
    assert "engine: tensorflow " in said
    steps = [run for run in load(tmp_path / "out") if run.engine == "tensorflow function"]
    assert len(steps) == 5


@pytest.mark.tensorflow
def test_a_crash_on_tensorflow_is_reported(start, tensorflow):
    del tensorflow
    code, said = end_of(start(ON_TENSORFLOW + "os.abort()\n", engine="tensorflow"))
    assert code == -signal.SIGABRT
    assert "the script was killed by SIGABRT" in said
    assert "stepscope program.py" in said
