"""Checkpoints of a directory: which there are, which is the last, and what they hold.

Beside its checkpoints a directory has a file, `checkpoint` by default, that names the last of them
and those that are kept, as a `CheckpointState` message in text.
"""

from __future__ import annotations

import glob as globbing
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from stepscope._messages import CheckpointState, DataType, SaverDef
from stepscope.errors import OpError
from stepscope.graph.dtypes import Array, DType
from stepscope.graph.tensor_proto import as_bytes
from stepscope.local_files import AnyPath, as_tensorflow, local_path
from stepscope.ops.io.tensor_bundle import BundleReader, index_file
from stepscope.programs import log
from stepscope.whole_files import whole_file

STATE_FILE = "checkpoint"

_SHARD = re.compile(r"-[\d\?]+-of-\d+$")


# -- the file that names them ------------------------------------------------------------------


def generate_checkpoint_state_proto(
    save_dir: AnyPath,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> Any:
    """A `CheckpointState`; relative paths become relative to `save_dir` if that is relative too."""
    directory = os.fsdecode(save_dir)
    paths = list(all_model_checkpoint_paths or ())
    if not paths or paths[-1] != model_checkpoint_path:
        paths.append(model_checkpoint_path)
    times = all_model_checkpoint_timestamps
    if times and len(times) != len(paths):
        raise ValueError(
            "Checkpoint timestamps, if provided, must match checkpoint paths (got paths "
            f"{paths} and timestamps {times})"
        )
    if not os.path.isabs(directory):  # noqa: PTH117
        paths = [_relative(path, directory) for path in paths]
    return CheckpointState(
        model_checkpoint_path=paths[-1],
        all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=times,
        last_preserved_timestamp=last_preserved_timestamp,
    )


def _relative(path: str, directory: str) -> str:
    return path if Path(path).is_absolute() else os.path.relpath(path, directory or ".")


def update_checkpoint_state(
    save_dir: AnyPath,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Write the file of a directory that names its checkpoints."""
    state = generate_checkpoint_state_proto(
        save_dir, model_checkpoint_path, all_model_checkpoint_paths,
        all_model_checkpoint_timestamps, last_preserved_timestamp,
    )  # fmt: skip
    target = os.path.join(local_path(save_dir), latest_filename or STATE_FILE)  # noqa: PTH118
    if target == state.model_checkpoint_path:
        raise RuntimeError(
            f"Save path '{model_checkpoint_path}' conflicts with path used for checkpoint state.  "
            "Please use a different save path."
        )
    with as_tensorflow(target), whole_file(target) as file:
        file.write(text_format.MessageToString(state).encode())


def get_checkpoint_state(checkpoint_dir: AnyPath, latest_filename: str | None = None) -> Any:
    """What the file of a directory says, as a `CheckpointState` with whole paths.

    None without such a file; None and a warning where it cannot be read.
    """
    directory = local_path(checkpoint_dir)
    path = os.path.join(directory, latest_filename or STATE_FILE)  # noqa: PTH118
    if not Path(path).exists():
        return None
    state = CheckpointState()
    try:
        with as_tensorflow(path):
            text_format.Merge(Path(path).read_bytes(), state)
    except (OpError, text_format.ParseError, UnicodeDecodeError) as error:
        log.warning("%s: %s", type(error).__name__, error)
        log.warning("%s: Checkpoint ignored", path)
        return None
    if not state.model_checkpoint_path:
        raise ValueError(f"Invalid checkpoint state loaded from {directory}")
    # Joining leaves absolute paths as they are.
    state.model_checkpoint_path = os.path.join(directory, state.model_checkpoint_path)  # noqa: PTH118
    for i, found in enumerate(state.all_model_checkpoint_paths):
        state.all_model_checkpoint_paths[i] = os.path.join(directory, found)  # noqa: PTH118
    return state


def latest_checkpoint(checkpoint_dir: AnyPath, latest_filename: str | None = None) -> str | None:
    """The prefix of a directory's last checkpoint; None if there is none."""
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    found: str = state.model_checkpoint_path
    if checkpoint_exists(found):
        return found
    log.error("Couldn't match files for checkpoint %s", found)
    return None


# -- their files -------------------------------------------------------------------------------


def _matching(prefix: str) -> list[str]:
    """The file that stands for a checkpoint: its index, or all there is of the first format."""
    pattern = local_path(prefix)
    return globbing.glob(index_file(pattern)) or globbing.glob(pattern)  # noqa: PTH207


def checkpoint_exists(checkpoint_prefix: AnyPath) -> bool:
    return bool(_matching(os.fsdecode(checkpoint_prefix)))


def get_checkpoint_mtimes(checkpoint_prefixes: Iterable[AnyPath]) -> list[float]:
    """When each was last written, in seconds since the epoch; those that are gone are left out."""
    found = [_matching(os.fsdecode(prefix)) for prefix in checkpoint_prefixes]
    return [Path(files[0]).stat().st_mtime_ns / 1e9 for files in found if files]


def remove_checkpoint(
    checkpoint_prefix: AnyPath,
    checkpoint_format_version: int = SaverDef.V2,
    meta_graph_suffix: str = "meta",
) -> None:
    """Delete a checkpoint's files and its meta graph."""
    prefix = local_path(checkpoint_prefix)
    patterns = [meta_graph_filename(prefix, meta_graph_suffix)]
    if checkpoint_format_version == SaverDef.V2:
        patterns += [index_file(prefix), f"{prefix}.data-?????-of-?????"]
    else:
        patterns.append(prefix)
    for pattern in patterns:
        for path in globbing.glob(pattern):  # noqa: PTH207
            Path(path).unlink(missing_ok=True)


def meta_graph_filename(checkpoint_filename: str, meta_graph_suffix: str = "meta") -> str:
    """Where the graph of a checkpoint is."""
    return f"{_SHARD.sub('', checkpoint_filename)}.{meta_graph_suffix}"


# -- what they hold ----------------------------------------------------------------------------


class CheckpointReader:
    """A checkpoint's tensors, by name, without a graph."""

    def __init__(self, filename: AnyPath) -> None:
        self._bundle = BundleReader(filename)

    def has_tensor(self, tensor_str: str | bytes) -> bool:
        return as_bytes(tensor_str).decode() in self._bundle

    def get_tensor(self, tensor_str: str | bytes) -> Any:
        """A tensor's value; NotFoundError if there is none of that name."""
        value: Array = self._bundle.read(as_bytes(tensor_str).decode())
        return value if value.shape else value[()]

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        return {name: list(self._bundle.describe(name).shape) for name in self._bundle.names()}

    def get_variable_to_dtype_map(self) -> dict[str, DType | None]:
        return {name: self._bundle.describe(name).dtype for name in self._bundle.names()}

    def debug_string(self) -> bytes:
        """A line per tensor: name, dtype and shape."""
        lines = []
        for name in self._bundle.names():
            number, shape = self._bundle.message(name).dtype, self._bundle.describe(name).shape
            lines.append(f"{name} ({DataType.Name(number)}) [{','.join(map(str, shape))}]\n")
        return "".join(lines).encode()


def NewCheckpointReader(filepattern: AnyPath) -> CheckpointReader:
    """The reader of the checkpoint with that prefix."""
    return CheckpointReader(filepattern)


def load_checkpoint(ckpt_dir_or_file: AnyPath) -> CheckpointReader:
    """The reader of a checkpoint, or of the last one in a directory; ValueError if it has none."""
    path = local_path(ckpt_dir_or_file)
    if Path(path).is_dir():
        found = latest_checkpoint(path)
        if found is None:
            raise ValueError(
                f"Couldn't find 'checkpoint' file or checkpoints in given directory {path}"
            )
        path = found
    return CheckpointReader(path)


def load_variable(ckpt_dir_or_file: AnyPath, name: str) -> Any:
    """The value of a variable in a checkpoint."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


def list_variables(ckpt_dir_or_file: AnyPath) -> list[tuple[str, list[int]]]:
    """The names and shapes in a checkpoint, by name."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())
