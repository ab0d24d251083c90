"""`make wheel`: which releases it finds, what it keeps, and what it says of one that fails."""

import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from stepscope.adapters.tensorflow.node_log import build

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("make_wheel", ROOT / "tools" / "make_wheel.py")
make_wheel = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_wheel)


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index that pip knows alone; a function that puts an empty package there."""
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))  # fewer interpreters to ask pip for
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)

    def add(package, version, tag="py3-none-any"):
        stem = f"{package.replace('-', '_')}-{version}"
        folder = tmp_path / "simple" / package
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(folder / f"{stem}-{tag}.whl", "w") as archive:
            about = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
            archive.writestr(f"{stem}.dist-info/METADATA", about)
            archive.writestr(f"{stem}.dist-info/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
            archive.writestr(f"{stem}.dist-info/RECORD", "")
        names = (path.name for path in folder.glob("*.whl"))
        (folder / "index.html").write_text(
            "".join(f'<a href="{name}">{name}</a>' for name in names)
        )

    return add


@pytest.fixture
def kept(tmp_path):
    """The directory of kept libraries; it has one for tensorflow-cpu 2.20.0."""
    if shutil.which("g++") is None:
        pytest.skip(build.NO_COMPILER)
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "small.c").write_text("int x;")
    library = folder / f"{build.name_for('2.20.0', 'abc')}.so"
    subprocess.run(["g++", "-shared", "-fPIC", folder / "small.c", "-o", library], check=True)
    known = {"tensorflow-cpu==2.20.0": {"version": "2.20.0", "build": "abc"}}
    (folder / "builds.json").write_text(json.dumps(known))
    return folder


def test_releases_are_all_from_2_15_on_that_pip_would_install_here(index):
    for version in ("2.14.1", "2.15.0", "2.15.0.post1", "2.9.0", "2.22.0", "2.23.0rc0"):
        index("tensorflow-cpu", version)
    index("tensorflow-cpu", "2.24.0", "cp39-cp39-any")
    index("tensorflow-cpu", "2.24.0", "py3-none-win_amd64")
    index("tensorflow", "2.21.0")
    found = make_wheel.releases()
    assert [str(release) for release in found] == [
        "tensorflow-cpu==2.22.0",
        "tensorflow-cpu==2.15.0.post1",
        "tensorflow-cpu==2.15.0",
        "tensorflow==2.21.0",
    ]
    assert {release.python for release in found} == {sys.executable}


def test_interpreters_are_one_of_each_version_and_this_one_first():
    first, *others = make_wheel.pythons()
    assert first == sys.executable
    asked = "import sys; print(sys.version_info[:2] >= (3, 11), sys.version_info[:2])"
    told = [make_wheel.run([python, "-c", asked]) for python in (first, *others)]
    assert all(line.startswith("True") for line in told)
    assert len(set(told)) == len(told)


def test_a_release_that_is_not_there_is_named(index):
    index("tensorflow-cpu", "2.21.0")
    with pytest.raises(SystemExit, match=r"tensorflow==2\.99: pip finds none for .*python"):
        make_wheel.releases(["tensorflow==2.99"])


def test_what_is_kept_is_not_made_again_and_what_fails_is_named(index, kept, tmp_path, capsys):
    index("tensorflow-cpu", "2.20.0")
    index("tensorflow-cpu", "2.21.0")  # beside it Stepscope's own dependencies are missing
    words = ["--out", str(tmp_path / "out"), "--kept", str(kept)]
    assert make_wheel.main(words) == 1
    (wheel,) = (tmp_path / "out").iterdir()
    failed, worked, *_, last = capsys.readouterr().out.splitlines()
    said = f"{failed}\n{worked}"
    assert wheel.name.startswith("stepscope-")
    assert "-py3-none-manylinux" in wheel.name
    assert last.startswith(f"{wheel}: 1 libraries for 2 releases")
    assert "tensorflow-cpu==2.21.0   NOT IN THE WHEEL" in said
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".so"))
    folder = "stepscope/adapters/tensorflow/node_log/libraries"
    assert name == f"{folder}/{build.name_for('2.20.0', 'abc')}.so"
    assert make_wheel.main([*words, "--only", "tensorflow-cpu==2.20.0"]) == 0
    assert " bytes      0 s  kept" in capsys.readouterr().out
