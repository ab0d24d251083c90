"""`tf.gfile`, beside TensorFlow's."""

import pytest

import stepscope.tf1 as tf1
from stepscope.errors import PermissionDeniedError, UnimplementedError


def use(tf, root):
    """A walk through the functions; what each gave or raised."""
    gfile, io, path = tf.gfile, tf.io.gfile, str(root)
    found = []

    def note(function, *args, **kwargs):
        try:
            value = function(*args, **kwargs)
        except tf.errors.OpError as error:
            value = type(error).__name__
        found.append((getattr(function, "__name__", ""), value))

    note(gfile.MakeDirs, f"{path}/a/b")
    note(gfile.MakeDirs, f"{path}/a/b")
    note(gfile.MkDir, f"{path}/a/b")
    note(gfile.MkDir, f"{path}/x/y")
    with gfile.Open(f"{path}/a/one.txt", "w") as file:
        file.write("first\nsecond\n")
        file.write("third")
    with gfile.GFile(f"{path}/a/one.txt") as file:
        note(file.readline)
        note(file.tell)
        note(file.read)
        note(file.size)
        file.seek(0)
        note(file.readlines)
    with gfile.FastGFile(f"{path}/a/one.txt", "rb") as file:
        note(file.read, 3)
        note(list, file)
    with gfile.Open(f"{path}/a/one.txt", "a") as file:
        file.write(" more")
    note(lambda: gfile.Open(f"{path}/a/one.txt").read())
    note(lambda: gfile.Open(f"{path}/a/none.txt").read())
    with gfile.Open(f"{path}/a/empty.txt", "w"):
        pass
    note(gfile.Exists, f"{path}/a/empty.txt")
    note(gfile.Exists, f"{path}/a/none")
    note(gfile.IsDirectory, f"{path}/a")
    note(gfile.IsDirectory, f"{path}/a/one.txt")
    note(lambda: sorted(gfile.ListDirectory(f"{path}/a")))
    note(gfile.ListDirectory, f"{path}/none")
    note(lambda: [p.replace(path, "") for p in sorted(gfile.Glob(f"{path}/a/*.txt"))])
    note(lambda: gfile.Stat(f"{path}/a/one.txt").length)
    note(gfile.Stat, f"{path}/none")
    note(gfile.Copy, f"{path}/a/one.txt", f"{path}/two.txt")
    note(gfile.Copy, f"{path}/a/one.txt", f"{path}/two.txt")
    note(gfile.Copy, f"{path}/a/one.txt", f"{path}/two.txt", overwrite=True)
    note(gfile.Copy, f"{path}/a/none.txt", f"{path}/three.txt")
    note(gfile.Rename, f"{path}/two.txt", f"{path}/four.txt")
    note(gfile.Remove, f"{path}/two.txt")
    note(gfile.Remove, f"{path}/four.txt")
    note(lambda: [(d.replace(path, ""), s, sorted(f)) for d, s, f in gfile.Walk(path)])
    note(io.exists, f"{path}/a")
    note(lambda: sorted(io.listdir(f"{path}/a")))
    note(gfile.DeleteRecursively, f"{path}/a")
    note(gfile.DeleteRecursively, f"{path}/a")
    note(io.isdir, f"{path}/a")
    return found


@pytest.mark.tensorflow
def test_as_tensorflow_does(tf, tmp_path):
    ours, theirs = [
        use(engine, tmp_path / name) for engine, name in ((tf1, "ours"), (tf, "theirs"))
    ]
    assert [value for _, value in ours] == [value for _, value in theirs]
    assert len(ours) == 35


def test_what_only_we_say(tmp_path):
    with pytest.raises(UnimplementedError, match="only local files are supported, not 'gs'"):
        tf1.gfile.Exists("gs://bucket/file")
    with pytest.raises(PermissionDeniedError, match="isn't open for reading"):
        tf1.gfile.Open(tmp_path / "x", "w").read()
    with pytest.raises(PermissionDeniedError, match="isn't open for writing"):
        tf1.gfile.Open(tmp_path / "x").write("y")
