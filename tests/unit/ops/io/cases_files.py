"""Files as tensors."""

import tempfile
from pathlib import Path

from op_cases import Case

FOLDER = tempfile.TemporaryDirectory()
for _name in ("five.txt", "four.txt", "six.txt"):
    (Path(FOLDER.name) / _name).write_text(_name)


def written(tf, name, text):
    path = str(Path(FOLDER.name) / name)
    return path, tf.io.write_file(path, text)


def there_and_back(tf):
    path, write = written(tf, "deep/er/file", b"bytes \x00 and all")
    with tf.control_dependencies([write]):
        return tf.io.read_file(tf.identity(path))


def found(tf):
    pattern = str(Path(FOLDER.name) / "f*.txt")
    return [tf.io.matching_files(pattern), tf.io.matching_files([pattern, "/no/such/*"])]


CASES = [
    Case("files/there and back", ("WriteFile", "ReadFile"), there_and_back),
    Case("files/found", ("MatchingFiles",), found),
    Case("files/none", (), lambda tf: tf.io.read_file("/no/such/file"), fails="run",
         match="No such file or directory"),
]  # fmt: skip
