"""Where the compiled library is kept: what is loaded from there, what is not, and what is said."""

import contextlib
import os
import re
import resource
import shutil
import stat
import subprocess
import sys
import textwrap
import warnings

import pytest

import started_python
from patience import patient
from stepscope.adapters import tensorflow as adapter
from stepscope.adapters.tensorflow.node_log import build, library_cache, shipped
from stepscope.adapters.tensorflow.node_log.library_cache import (
    CachedLibrary,
    LibraryCache,
    OddCacheError,
)

STEM = "node_log-2.21.0-0123456789abcdef"
CONTENT = b"\x7fELF" + bytes(range(256)) * 40
NOBODY = 65534
NO_ENTRY = 54321
"""A user that the system has no entry of."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def tmp_path(open_folder):
    return open_folder


@contextlib.contextmanager
def acting_as(user):
    """This process has no more rights than `user` has."""
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def cache(tmp_path):
    tmp_path.chmod(0o755)
    made = LibraryCache(tmp_path / "cache" / "stepscope")
    assert made.make_private() == []
    return made


@pytest.fixture
def installed(cache):
    return cache.install(STEM, CONTENT)


def test_what_was_installed_is_found_and_is_private_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        cache = LibraryCache(tmp_path / "new" / "cache" / "stepscope")
        cache.make_private()
        path = cache.install(STEM, CONTENT)
    finally:
        os.umask(before)
    assert cache.find(STEM) == CachedLibrary(path, "")
    assert path.read_bytes() == CONTENT
    assert (mode(path), mode(cache.folder), mode(cache.folder.parent)) == (0o600, 0o700, 0o700)


def test_where_nothing_is_there_nothing_is_odd(tmp_path, cache):
    assert cache.find(STEM) == CachedLibrary(None, "")
    assert LibraryCache(tmp_path / "never made").find(STEM) == CachedLibrary(None, "")


def replaced_by(make):
    def replace(path):
        path.unlink()
        make(path)

    return replace


ODD = {
    "cut": (lambda path: os.truncate(path, 4000), "is damaged: its 4,000 bytes"),
    "empty": (lambda path: os.truncate(path, 0), "is damaged: its 0 bytes"),
    "longer": (lambda path: path.write_bytes(CONTENT + b"\0"), "is damaged: its 10,245 bytes"),
    "one bit": (lambda path: path.write_bytes(b"\x7e" + CONTENT[1:]), "is damaged: its 10,244"),
    "a link": (replaced_by(lambda path: path.symlink_to("/bin/sh")), "symbolic link"),
    "a pipe": (replaced_by(os.mkfifo), "is not a file"),
    "a directory": (replaced_by(os.mkdir), "is not a file"),
    "a group's": (lambda path: path.chmod(0o620), r"can be written to by others \(mode 0620\)"),
    "everybody's": (lambda path: path.chmod(0o602), r"can be written to by others \(mode 0602\)"),
    "in a group's directory": (
        lambda path: path.parent.chmod(0o770), r"stepscope can be written to by others"
    ),
    "in everybody's directory": (
        lambda path: path.parent.chmod(0o1777), r"stepscope can be written to by others"
    ),
    "below everybody's directory": (
        lambda path: path.parent.parent.chmod(0o777), r"cache can be written to .*: chmod go-w it"
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", ODD)
def test_whatever_is_odd_is_not_given_and_said(cache, installed, how):
    make_odd, said = ODD[how]
    make_odd(installed)
    found = cache.find(STEM)
    assert found.path is None
    assert re.search(said, found.odd), found.odd
    assert str(cache.folder.parent) in found.odd


@needs_root
@pytest.mark.parametrize("what", ["the library", "its directory", "the directory above"])
def test_what_belongs_to_another_user_is_not_given(cache, installed, what):
    place = {"the library": installed, "its directory": cache.folder}.get(what, cache.folder.parent)
    os.chown(place, NOBODY, -1)
    found = cache.find(STEM)
    assert found.path is None
    assert found.odd.startswith(f"{place} belongs to nobody, not to this user")


@needs_root
def test_root_may_have_made_the_directories_above(tmp_path):
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", NOBODY, -1)
    with acting_as(NOBODY):
        cache = LibraryCache(tmp_path / "home" / "stepscope")
        cache.make_private()
        path = cache.install(STEM, CONTENT)
        assert cache.find(STEM) == CachedLibrary(path, "")
    assert cache.find(STEM).odd.startswith(f"{cache.folder} belongs to nobody")


def test_a_link_that_is_changed_leads_nowhere_else(tmp_path, cache, installed):
    link = tmp_path / "link"
    link.symlink_to(cache.folder)
    through = LibraryCache(link)
    link.unlink()
    link.symlink_to(tmp_path)
    assert through.find(STEM) == CachedLibrary(installed, "")


def test_a_new_library_replaces_all_others_of_its_name(cache, installed):
    installed.write_bytes(b"damaged")
    (cache.folder / f"{STEM}.so").write_bytes(b"of an older version")
    other = cache.folder / "node_log-2.15.0-fedcba9876543210.so"
    other.write_bytes(b"for another TensorFlow")
    path = cache.install(STEM, CONTENT + b"new")
    assert sorted(cache.folder.iterdir()) == sorted([path, other])
    assert cache.find(STEM) == CachedLibrary(path, "")


def test_a_process_that_has_the_old_one_keeps_it(cache, installed):
    with installed.open("rb") as old:
        cache.install(STEM, CONTENT)
        assert os.fstat(old.fileno()).st_ino != installed.stat().st_ino
        assert old.read() == CONTENT


def test_on_a_full_disk_nothing_is_left_behind(cache):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # the error of a disk that is full
    try:
        with pytest.raises(OSError, match=STEM):
            cache.install(STEM, CONTENT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(cache.folder.iterdir()) == []


INSTALLS = """
    import sys
    from pathlib import Path
    from stepscope.adapters.tensorflow.node_log.library_cache import CachedLibrary, LibraryCache

    cache = LibraryCache(Path(sys.argv[1]))
    for i in range(40):
        cache.make_private()
        path = cache.install(sys.argv[2], b"content" * 10000)
        assert cache.find(sys.argv[2]) == CachedLibrary(path, ""), cache.find(sys.argv[2])
"""


def test_processes_may_install_at_once(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(INSTALLS), str(tmp_path / "new"), STEM]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in started:
        _, said = process.communicate(timeout=250)
        assert process.returncode == 0, said
    assert len(list((tmp_path / "new").iterdir())) == 1


# -- making it private -----------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [0o777, 0o755, 0o1777])
def test_a_directory_that_is_open_to_others_is_closed(cache, bits):
    cache.folder.chmod(bits)
    (said,) = cache.make_private()
    assert said.startswith(f"{cache.folder} can be {'read' if bits == 0o755 else 'written to'} by")
    assert mode(cache.folder) == 0o700


@needs_root
def test_another_users_directory_is_moved_aside(cache, installed):
    os.chown(cache.folder, NOBODY, -1)
    (said,) = cache.make_private()
    assert said.startswith(f"{cache.folder} belongs to nobody, not to this user: it is now ")
    (aside,) = (path for path in cache.folder.parent.iterdir() if path != cache.folder)
    assert str(aside) in said
    assert (aside / installed.name).read_bytes() == CONTENT
    assert cache.find(STEM) == CachedLibrary(None, "")


@needs_root
def test_what_another_user_could_exchange_is_not_used(cache):
    os.chown(cache.folder.parent, NOBODY, -1)
    with pytest.raises(OddCacheError, match=r"belongs to nobody.*XDG_CACHE_HOME"):
        cache.make_private()


def test_a_file_in_its_place_is_left_alone(cache):
    cache.folder.rmdir()
    cache.folder.write_text("a user's own")
    with pytest.raises(OddCacheError, match="is not a directory: remove it"):
        cache.make_private()
    assert cache.find(STEM) == CachedLibrary(None, "")
    assert cache.folder.read_text() == "a user's own"


# -- where it is -----------------------------------------------------------------------------------


@pytest.mark.parametrize("relative", ["cache", ".", "./x", "", "~/cache"])
def test_a_relative_directory_is_ignored_as_the_specification_says(monkeypatch, relative):
    monkeypatch.setenv("XDG_CACHE_HOME", relative)
    monkeypatch.setenv("HOME", "/home/me")
    assert str(library_cache.folder()) == "/home/me/.cache/stepscope"
    monkeypatch.setenv("HOME", relative)
    assert library_cache.folder().is_absolute()


@needs_root
@pytest.mark.parametrize("home", [None, "", "relative"])
def test_a_user_without_a_home_is_told_so(monkeypatch, home):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    if home is not None:
        monkeypatch.setenv("HOME", home)
    with acting_as(NO_ENTRY), pytest.raises(OddCacheError, match="no home directory"):
        library_cache.folder()


# -- in programs -----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def library(compiled):
    """The content of the library for this TensorFlow."""
    found = LibraryCache(library_cache.folder()).find(build._name())
    return found.path.read_bytes()


@pytest.fixture
def program(tensorflow, monkeypatch, tmp_path):
    """As when a program begins; gives its cache. What this process has loaded stays loaded."""
    adapter.Session(graph=tensorflow.Graph()).close()  # whatever a session imports is there
    for name in ("_in_use", "_looked"):
        monkeypatch.setattr(build, name, False)
    monkeypatch.setattr(build, "_compile_behind", lambda _name: None)  # it would outlive the test
    monkeypatch.delenv(build.SWITCH)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    # Another user may not be able to read this repository, which the name is made from.
    name = build._name()
    monkeypatch.setattr(build, "_name", lambda: name)
    made = LibraryCache(tmp_path / "home" / ".cache" / "stepscope")
    yield made
    build.turn_off()


def sessions(tensorflow):
    """What is said when a program makes two sessions; neither logs its nodes."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            with adapter.Session(graph=tensorflow.Graph()) as session:
                assert not session._stepscope.logs_nodes
    assert build.executor_type() == ""
    assert all(warning.filename == __file__ for warning in said)
    return [str(warning.message) for warning in said]


PROGRAM = """
    import tensorflow as tf
    from stepscope.adapters import tensorflow as adapter

    for _ in range(2):
        with adapter.Session(graph=tf.Graph()) as session:
            print(session._stepscope.logs_nodes)
"""


def in_a_process(cache):
    return started_python.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        cwd=cache.folder,
        env={**os.environ, "XDG_CACHE_HOME": str(cache.folder.parent), "TF_CPP_MIN_LOG_LEVEL": "3"},
        timeout=patient(250),
    )


@pytest.mark.parametrize("damage", ["", "cut"])
def test_a_library_cut_short_ends_no_program(library, program, damage):
    program.make_private()
    path = program.install(build._name(), library)
    if damage:
        os.truncate(path, 40_000)  # loading it, a process is killed by SIGBUS
    done = in_a_process(program)
    assert (done.returncode, done.stdout) == (0, f"{not damage}\n" * 2), done.stderr
    assert done.stderr.count("RuntimeWarning") == bool(damage)
    assert ("is damaged: its 40,000 bytes" in done.stderr) == bool(damage)


def test_one_line_says_what_was_found_and_what_to_do(tensorflow, program):
    program.make_private()
    path = program.install(build._name(), CONTENT)
    path.write_bytes(CONTENT[:-1])
    (said,) = sessions(tensorflow)
    assert "\n" not in said
    assert said.startswith("TensorFlow is traced by its profiler, not by Stepscope's own executor")
    assert f"{path} is damaged" in said
    assert "`stepscope prepare` repairs it; STEPSCOPE_EXECUTOR=off" in said


def test_nothing_is_said_where_it_is_switched_off(tensorflow, program, monkeypatch):
    program.make_private()
    program.install(build._name(), CONTENT).write_bytes(b"damaged")
    monkeypatch.setenv(build.SWITCH, "off")
    assert sessions(tensorflow) == []


def test_a_file_that_is_no_library_of_ours_is_said(tensorflow, program, monkeypatch):
    """Whole, and this user's own; but not what is to be loaded."""
    monkeypatch.setattr(build, "_loaded", None)
    program.make_private()
    program.install(build._name(), CONTENT)
    (said,) = sessions(tensorflow)
    assert build._name() in said


@pytest.mark.skipif(shutil.which("g++") is None, reason=build.NO_COMPILER)
def test_a_library_that_lacks_a_function_is_said(tensorflow, program, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_loaded", None)
    program.make_private()
    program.install(build._name(), compiled_alone(tmp_path, "int x;"))
    (said,) = sessions(tensorflow)
    assert "undefined symbol: stepscope_register" in said


def compiled_alone(place, source):
    """A small library as bytes."""
    (place / "small.cc").write_text(source)
    command = ["g++", "-shared", "-fPIC", place / "small.cc", "-o", place / "small.so"]
    subprocess.run(command, check=True)
    return (place / "small.so").read_bytes()


def test_nothing_is_loaded_from_where_a_program_was_started(
    tensorflow, program, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", ".")
    planted = LibraryCache(tmp_path / "stepscope")
    planted.make_private()
    planted.install(build._name(), CONTENT)
    assert sessions(tensorflow) == []


@needs_root
def test_nothing_is_loaded_that_another_user_planted(tensorflow, program):
    program.make_private()
    for path, bits in zip(
        (program.folder, *program.folder.parents), (0o777, 0o755, 0o755), strict=False
    ):
        path.chmod(bits)
    with acting_as(NOBODY):
        planted = program.folder / f"{build._name()}.{library_cache._checksum(CONTENT)}.so"
        planted.write_bytes(CONTENT)
    (said,) = sessions(tensorflow)
    assert f"{program.folder} can be written to by others (mode 0777)" in said


@needs_root
def test_a_package_in_a_folder_that_is_closed_to_its_user_has_no_libraries(tmp_path, monkeypatch):
    folder = tmp_path / "package" / "libraries"
    folder.mkdir(parents=True)
    (folder / f"{STEM}.so").write_bytes(CONTENT)
    monkeypatch.setattr(shipped, "FOLDER", folder)
    assert shipped.find(STEM) == folder / f"{STEM}.so"
    folder.parent.chmod(0o700)
    with acting_as(NOBODY):
        assert shipped.find(STEM) is None


@needs_root
def test_a_user_without_a_home_makes_sessions(tensorflow, program, monkeypatch):
    monkeypatch.delenv("HOME")
    with acting_as(NO_ENTRY):
        assert sessions(tensorflow) == []
        assert "no home directory" in adapter.prepare()


@needs_root
def test_a_user_in_anothers_home_makes_sessions(tensorflow, program):
    """As under `sudo -u` without -H, or in a container: in a home that they cannot read."""
    program.make_private()
    program.install(build._name(), CONTENT)
    program.folder.parent.parent.chmod(0o700)
    with acting_as(NOBODY):
        (said,) = sessions(tensorflow)
        assert "Permission denied" in said
        assert "Permission denied" in adapter.prepare()


@needs_root
def test_a_cache_that_belongs_to_root_is_not_its_users(tensorflow, program):
    """What `sudo stepscope prepare` leaves in a user's home: root's, and readable."""
    program.make_private()
    path = program.install(build._name(), CONTENT)
    for place in (program.folder.parent, program.folder.parent.parent):
        os.chown(place, NOBODY, -1)
    program.folder.chmod(0o755)
    path.chmod(0o644)
    with acting_as(NOBODY):
        (said,) = sessions(tensorflow)
        assert f"{program.folder} belongs to root, not to this user" in said


@needs_root
def test_in_a_home_that_cannot_be_written_to_the_problem_is_said(program):
    home = program.folder.parent.parent
    home.mkdir()
    with acting_as(NOBODY):
        assert "Permission denied" in adapter.prepare()
    assert list(home.iterdir()) == []


# -- preparing -------------------------------------------------------------------------------------


@pytest.fixture
def compiler(program, monkeypatch, tmp_path):
    """A function that makes a shell script the C++ compiler; `$out` is what it is to write."""

    def use(script):
        path = tmp_path / "my compiler"
        path.write_text(
            '#!/bin/sh\nfor word; do test "$last" = -o && out="$word"; last="$word"; done\n'
            f"{script}\n"
        )
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))
        return path

    return use


def test_options_may_stand_behind_the_compiler(compiler, monkeypatch):
    path = compiler('echo "called: $1,$2,$3"; exit 1')
    monkeypatch.setenv("CXX", f"'{path}' -pipe '-DX=a b'")
    assert "called: -pipe,-DX=a b,-shared" in adapter.prepare()
    monkeypatch.setenv("CXX", "no-such-compiler -pipe")
    assert adapter.prepare() == build.NO_COMPILER
    monkeypatch.setenv("CXX", "'")
    assert "No closing quotation" in adapter.prepare()


@pytest.mark.parametrize("odd", ["damaged", "open to others"])
def test_prepare_repairs_and_says_what(library, program, compiler, capsys, odd, tmp_path):
    from stepscope.cli.arguments.command_line import run_command_line

    program.make_private()
    path = program.install(build._name(), library)
    if odd == "damaged":
        os.truncate(path, 40_000)
        said = f"Repaired: {path} is damaged"
    else:
        program.folder.chmod(0o777)
        said = f"Repaired: {program.folder} can be written to by others (mode 0777)"
    (tmp_path / "library").write_bytes(library)
    compiler(f"cp '{tmp_path}/library' \"$out\"")
    assert run_command_line(["prepare"]) == 0
    out = capsys.readouterr().out
    assert said in out
    assert out.count("Repaired") == 1
    assert "are traced by Stepscope's own executor from now on" in out
    assert out.endswith("It was compiled now.\n")
    assert program.find(build._name()) == CachedLibrary(path, "")
    assert mode(program.folder) == 0o700
    assert run_command_line(["prepare"]) == 0
    out = capsys.readouterr().out
    assert "Repaired" not in out
    assert out.endswith("It had been compiled before.\n")


@pytest.mark.skipif(shutil.which("g++") is None, reason=build.NO_COMPILER)
def test_a_library_that_ends_its_process_is_never_kept(program, compiler, tmp_path):
    source = "#include <signal.h>\n__attribute__((constructor)) void f() { raise(SIGSEGV); }"
    compiled_alone(tmp_path, source)
    compiler(f"cp '{tmp_path}/small.so' \"$out\"")
    problem = adapter.prepare()
    assert "of no use and not kept: a process that tried it ended by SIGSEGV" in problem
    assert list(program.folder.iterdir()) == []


def test_another_build_of_one_version_has_a_library_of_its_own(tensorflow, monkeypatch, tmp_path):
    here = build._name()
    for binary in (b"\x7fELF built today", b"\x7fELF built again"):
        (tmp_path / "libtensorflow_framework.so.2").write_bytes(binary)
        monkeypatch.setattr(tensorflow.sysconfig, "get_lib", lambda: str(tmp_path))
        assert build._name() != here
        here = build._name()
