"""Files as tensors."""

import tempfile
from pathlib import Path

from op_cases import Case

FOLDER = tempfile.TemporaryDirectory()


def written(tf, name, text):
    path = str(Path(FOLDER.name) / name)
    return path, tf.io.write_file(path, text)


def there_and_back(tf):
    path, write = written(tf, "deep/er/file", b"bytes \x00 and all")
    with tf.control_dependencies([write]):
        return tf.io.read_file(tf.identity(path))


def found(tf):
    path, write = written(tf, "found/one.txt", "1")
    other = written(tf, "found/two.txt", "2")[1]
    pattern = path.replace("one", "*")
    with tf.control_dependencies([write, other]):
        one = tf.io.matching_files(tf.identity(pattern))
        several = tf.io.matching_files(tf.identity([pattern, path]))
    return [one, several]


CASES = [
    Case("files/there and back", ("WriteFile", "ReadFile"), there_and_back),
    Case("files/found", ("MatchingFiles",), found),
    Case("files/none", (), lambda tf: tf.io.read_file("/no/such/file"), fails="run",
         match="No such file or directory"),
]  # fmt: skip
