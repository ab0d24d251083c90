"""The log that our executor writes to, by itself, under AddressSanitizer and ThreadSanitizer.

TensorFlow's own binaries are not instrumented, so the log is compiled with a driver instead, which
has many threads write to logs, read them and let go of them in every order (`log_driver.cc`).
STEPSCOPE_ROUNDS asks for more of them than the few that fit a test suite; `make sanitize` does.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import stepscope

HERE = Path(__file__).parent
NATIVE = Path(stepscope.__file__).parent / "adapters" / "tensorflow" / "node_log" / "native"
COMPILER = shutil.which("g++")
ROUNDS = int(os.environ.get("STEPSCOPE_ROUNDS", "20"))
PATIENCE = 900 + 3 * ROUNDS
"""Seconds. On an idle machine ThreadSanitizer takes a quarter of a second for a round."""


@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
@pytest.mark.skipif(COMPILER is None, reason="there is no g++ to compile the log with")
def test_threads_write_read_and_let_go(tmp_path, sanitizer):
    flags = ["-std=c++17", "-g1", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"]
    program = tmp_path / "log_driver"
    command = [COMPILER, *flags, f"-I{NATIVE}", HERE / "log_driver.cc", "-o", program, "-pthread"]
    empty = tmp_path / "empty.cc"
    empty.write_text("int main() {}\n")
    probe = [COMPILER, *flags, empty, "-o", tmp_path / "empty"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip(f"this g++ has no library for -fsanitize={sanitizer}")
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    maps = tmp_path / "maps"
    maps.mkdir()
    arguments = [program, str(ROUNDS), "4", maps]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr[:5000]
