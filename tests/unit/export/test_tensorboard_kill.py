"""A process killed at any moment of writing: what it reported as written is there, and whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from patience import patient

KILLS = 200

# It forks, so it must be small: no TensorFlow, no NumPy threads, nothing of the test process.
SCRIPT = r"""
import json, os, random, select, signal, struct, sys, time

from stepscope._messages import Event
from stepscope.export.tensorboard.event_file import EventFileWriter

def write_for_ever(logdir, report, seed):
    sizes = random.Random(seed)
    writer = EventFileWriter(logdir)
    step = 0
    while True:
        step += 1
        size = sizes.choice((0, 10, 1_000, 100_000, 4_000_000))
        writer.add_event(Event(step=step, file_version=f"{step:x}" * (size // 4)))
        if sizes.random() < 0.7:
            writer.flush()
            os.write(report, struct.pack("<q", step))

moments = random.Random(int(sys.argv[3]))
for number in range(int(sys.argv[2])):
    logdir = os.path.join(sys.argv[1], f"{number:03d}")
    read, report = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            write_for_ever(logdir, report, number)
        finally:
            os._exit(1)
    os.close(report)
    # The clock starts with the first report, so that every kill finds something to lose.
    select.select([read], [], [], 30)
    time.sleep(moments.uniform(0, 0.02))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    reported = os.read(read, 1 << 20)
    os.close(read)
    last = struct.unpack("<q", reported[-8:])[0] if reported else 0
    print(json.dumps([logdir, last, os.WTERMSIG(status)]), flush=True)
"""


def read_back(path, tf):
    """The events that TensorFlow's reader gives before the end, or before a record cut short."""
    events = []
    try:
        events.extend(tf.compat.v1.train.summary_iterator(str(path)))
    except tf.errors.DataLossError:
        return events, True
    return events, False


def test_a_killed_writer_loses_nothing_it_reported(tensorflow, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), str(KILLS), "20240229"],
        check=True,
        capture_output=True,
        text=True,
        timeout=patient(240),
    )
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(runs) == KILLS
    beyond = 0
    for logdir, last_reported, killed_by in runs:
        assert killed_by == 9
        assert last_reported >= 1
        (path,) = Path(logdir).iterdir()
        (first, *events), cut = read_back(path, tensorflow)
        path.unlink()
        assert first.file_version == "brain.Event:2"
        assert [event.step for event in events] == list(range(1, len(events) + 1))
        assert len(events) >= last_reported
        for event in events:
            assert not event.file_version.replace(f"{event.step:x}", "")
        beyond += len(events) > last_reported or cut
    # Otherwise every kill came between two records, and nothing was shown.
    assert beyond > KILLS // 20
