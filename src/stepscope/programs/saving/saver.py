"""`Saver`: variables saved to checkpoints and restored from them, by nodes of the graph.

The nodes (`saver_nodes`) are found again by their names, which a `SaverDef` holds: so a saver of an
imported graph is made of that message alone.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from stepscope._messages import SaverDef
from stepscope.errors import InvalidArgumentError, NotFoundError, OpError
from stepscope.graph import GraphKeys, add_to_collection, get_collection
from stepscope.layers.global_steps import global_step as global_step_of
from stepscope.local_files import AnyPath
from stepscope.programs import log
from stepscope.programs.saving.checkpoints import (
    STATE_FILE,
    CheckpointReader,
    checkpoint_exists,
    get_checkpoint_mtimes,
    meta_graph_filename,
    remove_checkpoint,
    update_checkpoint_state,
)
from stepscope.programs.saving.meta_graphs import export_meta_graph
from stepscope.programs.saving.saver_nodes import add_saver_nodes, saveable_variables
from stepscope.programs.scoped_names import in_scope, under_scope, without_scope
from stepscope.runtime.session import BaseSession

_NAMES = ("filename_tensor_name", "save_tensor_name", "restore_op_name")
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SECONDS_PER_HOUR = 3600.0


class Saver:
    """Saves variables and restores them. Each saver adds nodes of its own to the graph."""

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,  # noqa: ARG002 - they are read one after the other
        saver_def: Any = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = SaverDef.V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ) -> None:
        """`var_list` is a list of variables or a dict of them by the names in the checkpoint.

        By default all variables that are no local ones. `max_to_keep` checkpoints are kept, older
        ones deleted, but for one every so many hours. With `saver_def` nodes that are in the graph
        already are used, in the name scope `name`.
        """
        if defer_build and var_list:
            raise ValueError(
                "If `var_list` is provided then build cannot be deferred. Either set "
                "defer_build=False or var_list=None."
            )
        if builder is not None:
            raise TypeError("Saver(builder=...) is not supported: savers build their nodes alone.")
        if write_version != SaverDef.V2:
            log.warning("Checkpoints of the first format are not written: these are of the second.")
        self._var_list = var_list
        self._reshape = reshape
        self._sharded = sharded
        self._max_to_keep = max_to_keep
        self._every_hours = keep_checkpoint_every_n_hours
        self._name = name
        self._allow_empty = allow_empty
        self._pad_step_number = pad_step_number
        self._relative_paths = save_relative_paths
        self._filename = filename
        self._is_built = self._is_empty = False
        self._last_checkpoints: list[tuple[str, float]] = []
        self._to_be_deleted: list[tuple[str, float]] = []
        self.saver_def: Any = None
        if saver_def is not None:
            self.saver_def = SaverDef.FromString(saver_def.SerializeToString())
        if not defer_build:
            self.build()

    def build(self) -> None:
        """Add the nodes, where `defer_build` left that for later."""
        if self._is_built:
            return
        self._is_built = True
        if self.saver_def is None:
            wanted = saveable_variables() if self._var_list is None else self._var_list
            if not wanted:
                if not self._allow_empty:
                    raise ValueError("No variables to save")
                self._is_empty = True
                return
            self.saver_def = add_saver_nodes(
                wanted, self._reshape, self._sharded, self._name, self._filename or "model"
            )
            self.saver_def.max_to_keep = self._max_to_keep or 0
            self.saver_def.keep_checkpoint_every_n_hours = self._every_hours
        elif self._name:
            for field in _NAMES:
                setattr(
                    self.saver_def, field, under_scope(getattr(self.saver_def, field), self._name)
                )
        for field in _NAMES[1:]:
            if not getattr(self.saver_def, field):
                raise ValueError(f"saver_def must specify the {field}: {self.saver_def}")
        self._keep_next = time.time() + self._keep_every

    @property
    def _keep_every(self) -> float:
        return float(self.saver_def.keep_checkpoint_every_n_hours) * _SECONDS_PER_HOUR

    # -- as messages ---------------------------------------------------------------------------

    def as_saver_def(self) -> Any:
        """The names of this saver's nodes, and what it keeps."""
        return self.saver_def

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The same, with names relative to a scope; None if its nodes are not in that."""
        if self.saver_def is None:
            return None
        if not all(in_scope(getattr(self.saver_def, field), export_scope) for field in _NAMES):
            return None
        result = SaverDef.FromString(self.saver_def.SerializeToString())
        for field in _NAMES:
            setattr(result, field, without_scope(getattr(result, field), export_scope))
        return result

    @staticmethod
    def from_proto(saver_def: Any, import_scope: str | None = None) -> Saver:
        """The saver of nodes that are in the graph."""
        return Saver(saver_def=saver_def, name=import_scope)

    def export_meta_graph(
        self,
        filename: AnyPath | None = None,
        collection_list: Sequence[str] | None = None,
        as_text: bool = False,
        export_scope: str | None = None,
        clear_devices: bool = False,
        clear_extraneous_savers: bool = False,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> Any:
        """The meta graph of the default graph, with this saver."""
        return export_meta_graph(
            filename=None if filename is None else os.fsdecode(filename),
            saver_def=self.saver_def,
            collection_list=collection_list,
            as_text=as_text,
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs,
            save_debug_info=save_debug_info,
        )

    # -- saving --------------------------------------------------------------------------------

    def save(
        self,
        sess: Any,
        save_path: AnyPath,
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str | None:
        """Save the variables' values; returns the prefix of the checkpoint's files.

        With `global_step`, a number or something to be run, that is `save_path-<step>`. None if
        the saver has no variables.
        """
        if not self._is_built:
            raise RuntimeError("`build()` should be called before save if defer_build==True")
        state_file = latest_filename or STATE_FILE
        if Path(state_file).name != state_file:
            raise ValueError("'latest_filename' must not contain path components")
        path = os.fsdecode(save_path)
        prefix = path
        if global_step is not None:
            if not isinstance(global_step, Integral):
                global_step = global_step_of(sess, global_step)
            prefix = f"{path}-{int(global_step):0{8 if self._pad_step_number else 1}d}"
        elif Path(path).name == state_file and not self._sharded:
            raise ValueError(
                f"'latest_filename' collides with 'save_path': '{state_file}' and '{path}'"
            )
        _refuse_other_sessions(sess)
        saved: str | None = None
        if not self._is_empty:
            saved = self._save(sess, prefix)
            if write_state:
                self._note(saved, path, state_file, meta_graph_suffix)
        if write_meta_graph:
            with sess.graph.as_default():
                self.export_meta_graph(
                    meta_graph_filename(prefix, meta_graph_suffix),
                    strip_default_attrs=strip_default_attrs,
                    save_debug_info=save_debug_info,
                )
        return saved

    def _save(self, session: Any, prefix: str) -> str:
        try:
            found: bytes = session.run(
                self.saver_def.save_tensor_name, {self.saver_def.filename_tensor_name: prefix}
            )
        except OpError:
            parent = Path(prefix).parent
            if parent.exists() and not parent.is_dir():
                raise ValueError(
                    f"Parent directory of {prefix} is no directory, can't save."
                ) from None
            raise
        return found.decode()

    def _note(self, prefix: str, path: str, state_file: str, suffix: str) -> None:
        """Remember the checkpoint, tell the directory, and delete what is too old."""
        if self.saver_def.max_to_keep:
            kept = [item for item in self._last_checkpoints if item[0] != prefix]
            self._last_checkpoints = [*kept, (prefix, time.time())]
            if len(self._last_checkpoints) > self.saver_def.max_to_keep:
                self._to_be_deleted.append(self._last_checkpoints.pop(0))
        directory = os.path.dirname(path)  # noqa: PTH120 - "" for none
        names = [prefix, *self.last_checkpoints]
        if self._relative_paths:
            names = [os.path.relpath(n, directory) if Path(n).is_absolute() else n for n in names]
        update_checkpoint_state(directory, names[0], names[1:], state_file)
        if self._to_be_deleted:
            oldest, written = self._to_be_deleted.pop(0)
            if written > self._keep_next:
                self._keep_next += self._keep_every
                return
            try:
                remove_checkpoint(oldest, meta_graph_suffix=suffix)
            except OSError as error:
                log.warning("Ignoring: %s", error)

    # -- which there are -----------------------------------------------------------------------

    @property
    def last_checkpoints(self) -> list[str]:
        """The checkpoints of this saver that are not deleted, the oldest first."""
        return [prefix for prefix, _ in self._last_checkpoints]

    def set_last_checkpoints(self, last_checkpoints: list[str]) -> None:
        """Take these for checkpoints of this saver, which are never deleted."""
        self._last_checkpoints = [(prefix, math.inf) for prefix in last_checkpoints]

    def set_last_checkpoints_with_time(
        self, last_checkpoints_with_time: list[tuple[str, float]]
    ) -> None:
        """Take these for checkpoints of this saver, written at those times."""
        self._last_checkpoints = list(last_checkpoints_with_time)

    def recover_last_checkpoints(self, checkpoint_paths: Sequence[str]) -> None:
        """Take those of these checkpoints that are there for this saver's."""
        found = [(path, get_checkpoint_mtimes([path])) for path in checkpoint_paths]
        self.set_last_checkpoints_with_time([(path, times[0]) for path, times in found if times])

    # -- restoring -----------------------------------------------------------------------------

    def restore(self, sess: Any, save_path: AnyPath | None) -> None:
        """Give the variables the values they have in a checkpoint; they need no other ones before.

        ValueError where there is none; NotFoundError, InvalidArgumentError or DataLossError if it
        lacks a variable, has another shape or dtype, or is damaged.
        """
        if self._is_empty:
            return
        if not self._is_built:
            raise RuntimeError("`build()` should be called before restore if defer_build==True")
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        prefix = os.fsdecode(save_path)
        if not prefix or not checkpoint_exists(prefix):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {prefix}")
        log.info("Restoring parameters from %s", prefix)
        try:
            sess.run(self.saver_def.restore_op_name, {self.saver_def.filename_tensor_name: prefix})
        except NotFoundError as error:
            cause = "a Variable name or other graph key that is missing"
            if CheckpointReader(prefix).has_tensor(_OBJECT_GRAPH):
                cause = "it being one of tf.train.Checkpoint, which has other names than those"
            raise _explained(error, cause) from error
        except InvalidArgumentError as error:
            raise _explained(error, "a mismatch between the current graph and the graph") from error


def _refuse_other_sessions(session: Any) -> None:
    if not isinstance(session, BaseSession):
        raise TypeError(f"'sess' must be a Session; {session}")


def _explained(error: OpError, cause: str) -> OpError:
    message = error.message
    op = error.op
    if getattr(op, "type", "") in ("Assign", "AssignVariableOp"):
        message = f"Variable {op.inputs[0].op.name!r} of the graph (lhs): {message}"
    made: OpError = type(error)(
        error.node_def,
        op,
        f"Restoring from checkpoint failed. This is most likely due to {cause} from the "
        "checkpoint. Please ensure that you have not altered the graph expected based on the "
        f"checkpoint. Original error:\n\n{message}",
    )
    made.run_metadata = error.run_metadata
    return made


def saver_of_graph() -> Saver:
    """The one saver of the graph's collection of savers; one for all variables, if it is empty."""
    found = get_collection(GraphKeys.SAVERS)
    if len(found) > 1:
        raise RuntimeError(
            f"More than one item in collection {GraphKeys.SAVERS}. Please indicate which one to "
            "use by passing it to the constructor."
        )
    if found:
        return found[0]  # type: ignore[no-any-return]
    saver = Saver(sharded=True, allow_empty=True)
    add_to_collection(GraphKeys.SAVERS, saver)
    return saver
