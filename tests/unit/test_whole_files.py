"""Files are replaced in full; what is no file is written to and stays what it is."""

import os
import stat
import threading

import pytest

from patience import patient
from stepscope.metadata import Recording, RunMetadata, load
from stepscope.whole_files import write_whole


def test_a_file_is_there_in_full_or_as_before(tmp_path):
    place = tmp_path / "deep" / "file"
    write_whole(place, [b"old"])

    def fails_half_way():
        yield b"half of the ne"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_whole(place, fails_half_way())
    assert place.read_bytes() == b"old"
    assert os.listdir(place.parent) == ["file"]


def test_a_link_leads_to_what_is_written(tmp_path):
    (tmp_path / "runs").mkdir()
    link = tmp_path / "latest"
    link.symlink_to("runs/1.pb")
    for content in (b"first", b"second"):
        write_whole(link, [content])
        assert link.is_symlink()
        assert (tmp_path / "runs" / "1.pb").read_bytes() == content
    assert sorted(os.listdir(tmp_path / "runs")) == ["1.pb"]


def test_a_pipe_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    metadata = RunMetadata()
    metadata.record(Recording(engine="embedded"))
    metadata.save(pipe)
    reader.join(patient(60))
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]
    (tmp_path / "copy.pb").write_bytes(read[0])
    assert load(tmp_path / "copy.pb").engine == "embedded"
