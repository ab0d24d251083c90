"""`tf.io.gfile`."""

from stepscope.programs import files as _files
from stepscope.programs.files import GFile
from stepscope.tf1._absent import absent

copy = _files.Copy
exists = _files.Exists
glob = _files.Glob
isdir = _files.IsDirectory
listdir = _files.ListDirectory
makedirs = _files.MakeDirs
mkdir = _files.MkDir
remove = _files.Remove
rename = _files.Rename
rmtree = _files.DeleteRecursively
stat = _files.Stat
walk = _files.Walk

__all__ = [
    "GFile", "copy", "exists", "glob", "isdir", "listdir", "makedirs", "mkdir", "remove", "rename",
    "rmtree", "stat", "walk",
]  # fmt: skip

__getattr__ = absent(__name__)
