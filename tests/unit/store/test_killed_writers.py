"""A process that is killed at any moment: nothing that was acknowledged is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap

import pytest

import stepscope

PROGRAM = textwrap.dedent(
    f"""
    import pathlib, sys
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    from recorded_examples import simple_run
    from stepscope.store import Store
    store = Store(pathlib.Path(sys.argv[1]))
    for number in range(1_000_000):
        store.add(simple_run(number, 1 + number % 400), "step")
        if number % 3 == 0:
            store.flush()
            print(number, flush=True)
    """
)


@pytest.mark.parametrize("kill", range(10))
def test_what_was_flushed_before_a_kill_is_read(tmp_path, kill):
    after = random.Random(kill).randrange(1, 60)
    writer = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    acknowledged = -1
    for _ in range(after):
        acknowledged = int(writer.stdout.readline())
    writer.send_signal(signal.SIGKILL)
    rest = writer.stdout.read().split("\n")[:-1]
    writer.stdout.close()
    assert writer.wait() == -signal.SIGKILL
    acknowledged = int(rest[-1]) if rest else acknowledged
    runs = stepscope.load(tmp_path)
    assert len(runs) > acknowledged
    for number, run in enumerate(runs):
        assert run.step_id == number
        assert len(run.ops) == 1 + number % 400
        assert run.completeness.complete
