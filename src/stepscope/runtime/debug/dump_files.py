"""Dumps of watched tensors on disk, in the layout that TensorFlow's `DebugDumpDir` reads.

    <root>/_tfdbg_core_metadata_sessionrun<run>_<time>           which run this was
    <root>/_tfdbg_device_<device>/_tfdbg_graph_hash<h>_<time>    the graph that device executed
    <root>/_tfdbg_device_<device>/<scope>/<node>_<slot>_<debug op>_<time>

Every file is one serialised Event. Files are written beside and renamed, so a reader sees whole
files only; times are microseconds, never the same twice in a process, and a tensor's time is later
than those of the tensors it was computed from.

No file is written outside of the root, whatever nodes are called and whatever links lie below it.
`../../x` is a valid name of a node, and TensorFlow itself takes it for a path. Here `..`, `.`, an
empty part and one too long for a file system are written in another way (`%2E%2E`); names without
them, which is all that a reader finds again by its path, stand as they are. The Event in the file
has the node's own name in any case.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import threading
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np

from stepscope._messages import Event, TensorProto
from stepscope.errors import (
    FailedPreconditionError,
    InternalError,
    OpError,
    ResourceExhaustedError,
)
from stepscope.graph.dtypes import string
from stepscope.graph.shapes import TensorShape
from stepscope.graph.tensor_proto import as_bytes
from stepscope.runtime.debug.ops import WatchedTensor

PREFIX: Final = "_tfdbg_"
BYTES_LIMIT_VARIABLE: Final = "TFDBG_DISK_BYTES_LIMIT"
DEFAULT_BYTES_LIMIT: Final = 100 << 30
_MOST_BYTES_PER_FILE: Final = (1 << 31) - (1 << 16)
_LONGEST_COMPONENT: Final = 255
"""Bytes of a name in a path that file systems allow."""
_LONGEST_TIME: Final = len("_1700000000000000-99")
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _DiskUsage:
    """How much of the process's allowance for dumps is used up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used = 0

    def reset(self) -> None:
        with self._lock:
            self._used = 0

    def take(self, count: int, tensor: str) -> None:
        limit = _bytes_limit()
        with self._lock:
            if not count or self._used + count < limit:
                self._used += count
                return
            used = self._used
        raise ResourceExhaustedError.without_op(
            f"No more disk space is allowed for debug dumps: {tensor} needs {count} bytes, {used} "
            f"of {limit} are used. Raise the limit with the environment variable "
            f"{BYTES_LIMIT_VARIABLE}, or start counting again with "
            "debug_options.reset_disk_byte_usage.",
        )


disk_usage: Final = _DiskUsage()


def _bytes_limit() -> int:
    text = os.environ.get(BYTES_LIMIT_VARIABLE, "")
    if not text:
        return DEFAULT_BYTES_LIMIT
    if not text.isdigit():
        raise FailedPreconditionError.without_op(
            f"{BYTES_LIMIT_VARIABLE} is {text!r}; it must be a number of bytes."
        )
    return int(text)


class _Clock:
    """Microseconds since the epoch, later at every call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def micros(self) -> int:
        with self._lock:
            self._last = max(self._last + 1, time.time_ns() // 1000)
            return self._last


clock: Final = _Clock()


def device_directory(device: str) -> str:
    """The directory name of a device."""
    name = ",".join(part.replace(":", "_") for part in device.split("/"))
    return _shortened(f"{PREFIX}device_{name}", _LONGEST_COMPONENT)


def tensor_file(node: str, ending: str) -> PurePosixPath:
    """Where the dump of a node stands below its device's directory, never outside of it.

    >>> tensor_file("tower/mul", "_0_DebugIdentity")
    PurePosixPath('tower/mul_0_DebugIdentity')
    >>> tensor_file("../../x", "_0_DebugIdentity")
    PurePosixPath('%2E%2E/%2E%2E/x_0_DebugIdentity')
    """
    *folders, last = node.split("/")
    room = _LONGEST_COMPONENT - len(ending) - _LONGEST_TIME
    return PurePosixPath(*map(_component, folders), _shortened(last, room) + ending)


def _component(name: str) -> str:
    """A part of a node's name as the name of a directory."""
    if name in ("", ".", ".."):
        return name.replace(".", "%2E") or "%"
    return _shortened(name, _LONGEST_COMPONENT)


def _shortened(name: str, most: int) -> str:
    """A name of at most so many bytes; what is cut off is told apart by its digest."""
    name = name.replace("\0", "%00")
    encoded = os.fsencode(name)
    if len(encoded) <= most:
        return name
    digest = hashlib.blake2b(encoded, digest_size=8).hexdigest()
    return f"{os.fsdecode(encoded[: most - len(digest) - 1])}~{digest}"


def tensor_proto(observed: WatchedTensor, device: str) -> Any:
    """A value as debug dumps hold it: raw content even for scalars, none when uninitialised."""
    proto = TensorProto(
        dtype=observed.dtype.as_datatype_enum, tensor_shape=TensorShape(observed.shape).as_proto()
    )
    if observed.handle:
        proto.tensor_content = _encoded_handle(observed.handle, device)
    elif observed.value is not None and observed.dtype is string:
        proto.string_val.extend(as_bytes(v) for v in observed.value.reshape(-1))
    elif observed.value is not None:
        little = observed.dtype.numpy.newbyteorder("<")
        proto.tensor_content = np.ascontiguousarray(observed.value, dtype=little).tobytes()
    return proto


def _encoded_handle(name: str, device: str) -> bytes:
    handle = TensorProto().resource_handle_val.add(device=device, container="localhost", name=name)
    data: bytes = handle.SerializeToString()
    size, prefix = len(data), bytearray()
    while size > 0x7F:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + data


class DumpDirectory:
    """One `file://` target. Safe under threads."""

    def __init__(self, root: str) -> None:
        self.root = Path(root)

    def publish_run(self, graphs: Mapping[str, Any], description: Mapping[str, Any]) -> None:
        """Write which run this is and the graphs (by device) it executes.

        This comes before the run: FailedPreconditionError where nothing can be written.
        """
        try:
            for device, graph in graphs.items():
                self._publish_graph(device, graph)
            micros = clock.micros()
            event = Event(wall_time=float(micros))
            event.log_message.message = json.dumps(description, separators=(",", ":"))
            name = f"{PREFIX}core_metadata_sessionrun{description['session_run_index']:014d}"
            self._write(self.root / name, micros, event.SerializeToString())
        except OSError as error:
            if error.errno in _FULL:
                raise self._failure(self.root, error) from error
            raise FailedPreconditionError.without_op(
                f"Debug dumps cannot be written to {str(self.root)!r} ({error}). "
                "Give a directory that can be made and written in debug_urls.",
            ) from error

    def _publish_graph(self, device: str, graph: Any) -> None:
        content = graph.SerializeToString(deterministic=True)
        digest = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")
        directory = self.root / device_directory(device)
        name = f"{PREFIX}graph_hash{digest}"
        if directory.is_dir() and any(directory.glob(f"{name}_*")):
            return
        micros = clock.micros()
        event = Event(wall_time=float(micros), graph_def=content)
        self._write(directory / name, micros, event.SerializeToString())

    def publish_tensor(
        self, device: str, node: str, slot: int, debug_op: str, observed: WatchedTensor, micros: int
    ) -> None:
        """Write what a debug op made of a tensor."""
        tensor = f"{node}:{slot}"
        size = 0 if observed.value is None else int(observed.value.nbytes)
        if size > _MOST_BYTES_PER_FILE:
            raise ResourceExhaustedError.without_op(
                f"{tensor} has {size} bytes, and a debug dump holds at most "
                f"{_MOST_BYTES_PER_FILE}: watch it with DebugNumericSummary instead.",
            )
        disk_usage.take(size, tensor)
        event = Event(wall_time=float(micros))
        value = event.summary.value.add(tag=node, node_name=f"{tensor}:{debug_op}")
        value.tensor.CopyFrom(tensor_proto(observed, device))
        value.metadata.plugin_data.plugin_name = "debugger"
        envelope = {"device": device, "outputSlot": slot, "numChunks": 1, "chunkIndex": 0}
        value.metadata.plugin_data.content = json.dumps(envelope, separators=(",", ":")).encode()
        path = self.root / device_directory(device) / tensor_file(node, f"_{slot}_{debug_op}")
        try:
            self._write(path, micros, event.SerializeToString())
        except OSError as error:
            raise self._failure(path, error) from error

    def _write(self, path: Path, micros: int, content: bytes) -> None:
        # In the root, where readers of dumps look at names that begin with the prefix only.
        temporary = self.root / f".stepscope-{secrets.token_hex(8)}.tmp"
        if not path.parent.resolve().is_relative_to(self.root.resolve()):
            raise OSError(
                errno.ELOOP, "a link below the root of the dumps leads out of it", str(path.parent)
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(content)
            target, index = Path(f"{path}_{micros}"), 0
            while target.exists():
                index += 1
                target = Path(f"{path}_{micros}-{index}")
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _failure(self, path: Path, error: OSError) -> OpError:
        kind = ResourceExhaustedError if error.errno in _FULL else InternalError
        return kind(None, None, f"The debug dump {str(path)!r} could not be written: {error}")
