"""Which build of TensorFlow a library fits."""

import shutil
import subprocess

import pytest

from stepscope.adapters.tensorflow.node_log import build
from stepscope.adapters.tensorflow.node_log.fingerprint import fingerprint

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason=build.NO_COMPILER)
SOURCE = """
extern "C" {
__attribute__((section("for_gpus"))) extern const char kernels[] = KERNELS;
int run(int x) { return x + 1; }
int more(int x) { return run(x) * x; }
}
"""


@pytest.fixture
def compiled(tmp_path):
    """Compiles a library; gives its fingerprint."""

    def compile(*options, source=SOURCE, kernels="code"):
        made = tmp_path / "library.so"
        (tmp_path / "source.cc").write_text(source.replace("KERNELS", f'"{kernels}"'))
        command = ["g++", "-shared", "-fPIC", "-O1", *options, tmp_path / "source.cc", "-o", made]
        subprocess.run(command, check=True)
        return fingerprint(made)

    return compile


def test_it_is_the_same_whatever_the_build_id_and_the_code_for_gpus(compiled):
    usual = compiled("-Wl,--build-id=none")
    assert len(usual) == 32
    assert compiled("-Wl,--build-id=0x1234") == usual
    assert compiled("-Wl,--build-id=none", kernels="CODE") == usual
    assert compiled("-Wl,--build-id=none", "-Wl,-Ttext-segment=0x10000") == usual


@pytest.mark.parametrize(
    "change",
    [
        ("more(", "less("),
        ("return x + 1", "return x / 3 + 1"),
        ("int more", "int another(int x) { return x; } int more"),
    ],
)
def test_it_changes_with_what_is_exported_and_its_size(compiled, change):
    assert compiled(source=SOURCE.replace(*change)) != compiled()


def test_it_changes_with_how_it_was_compiled(compiled):
    assert compiled("-O0") != compiled()


@pytest.mark.parametrize("content", [b"", b"no library", b"\x7fELF\x02\x01" + bytes(58)])
def test_what_has_no_sections_is_told_by_its_first_bytes_and_its_size(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    first = fingerprint(path)
    path.write_bytes(content + b"more")
    assert fingerprint(path) != first
    path.write_bytes(content)
    assert fingerprint(path) == first


def test_a_table_that_is_cut_off_is_none(tmp_path, compiled):
    compiled()
    whole = (tmp_path / "library.so").read_bytes()
    (tmp_path / "cut.so").write_bytes(whole[:-1])
    assert fingerprint(tmp_path / "cut.so") != fingerprint(tmp_path / "library.so")
