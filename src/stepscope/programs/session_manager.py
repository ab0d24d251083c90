"""`SessionManager`: sessions whose variables are a checkpoint's, or else initialised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stepscope.errors import FailedPreconditionError, UnimplementedError
from stepscope.graph import Graph, get_default_graph
from stepscope.programs import log
from stepscope.programs.saving.checkpoints import get_checkpoint_state
from stepscope.runtime import Session


class SessionManager:
    """Makes sessions of a graph and gets their variables ready.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     w = tf.Variable(2.0)
    ...     manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    ...     start = tf.global_variables_initializer()
    ...     with manager.prepare_session("", init_op=start) as session:
    ...         print(session.run(w))
    2.0
    """

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Graph | None = None,
        recovery_wait_secs: float = 30,
        local_init_run_options: Any = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        """`recovery_wait_secs` is how long a worker of a cluster waits between two looks."""
        self._local_init_op, self._local_init_feeds = local_init_op, local_init_feed_dict
        self._ready_op, self._ready_for_local_init_op = ready_op, ready_for_local_init_op
        self._graph = graph or get_default_graph()
        self._local_init_options = local_init_run_options
        del recovery_wait_secs

    def prepare_session(
        self,
        master: str,
        init_op: Any = None,
        saver: Any = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[[Any], None] | None = None,
    ) -> Session:
        """A session that is ready: restored, or made so by `init_op` and `init_fn`.

        RuntimeError where it is not, with the variables that have no value.
        """
        del wait_for_checkpoint, max_wait_secs  # nobody else writes one for us to wait for
        session = Session(master, graph=self._graph, config=config)
        made = f"Init op: {getattr(init_op, 'name', None)}, init fn: {init_fn}"
        try:
            if not _restored(session, saver, checkpoint_dir, checkpoint_filename_with_path):
                if init_op is None and init_fn is None and self._local_init_op is None:
                    raise RuntimeError(
                        "Model is not initialized and no init_op or init_fn or local_init_op was "
                        "given"
                    )
                if init_op is not None:
                    session.run(init_op, feed_dict=init_feed_dict)
                if init_fn is not None:
                    init_fn(session)
            missing = self._initialize_locals(session)
            if missing:
                raise RuntimeError(
                    f"Init operations did not make model ready for local_init.  {made}, error: "
                    f"{missing}"
                )
            missing = _missing(session, self._ready_op)
            if missing:
                raise RuntimeError(
                    f"Init operations did not make model ready.  {made}, local_init_op: "
                    f"{getattr(self._local_init_op, 'name', None)}, error: {missing}"
                )
        except BaseException:
            session.close()
            raise
        return session

    def recover_session(
        self,
        master: str,
        saver: Any = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
    ) -> tuple[Session, bool]:
        """A session restored from a checkpoint, and whether it is ready."""
        del wait_for_checkpoint, max_wait_secs
        session = Session(master, graph=self._graph, config=config)
        if not _restored(session, saver, checkpoint_dir, checkpoint_filename_with_path):
            return session, False
        missing = self._initialize_locals(session) or _missing(session, self._ready_op)
        if missing:
            log.info("Restoring model did not make model ready: %s", missing)
        return session, not missing

    def wait_for_session(
        self, master: str, config: Any = None, max_wait_secs: float = float("inf")
    ) -> Session:
        """For workers that wait for a chief: a session here has its variables for itself."""
        del config, max_wait_secs
        raise UnimplementedError.without_op(
            f"wait_for_session({master!r}) waits for another process to initialise the variables; "
            "those of a session of the embedded engine are its own. Use prepare_session."
        )

    def _initialize_locals(self, session: Any) -> str | None:
        """Run the op for local variables; what is missing for that, in words."""
        if self._local_init_op is None:
            return None
        if self._ready_for_local_init_op is not None:
            missing = _missing(session, self._ready_for_local_init_op)
            if missing:
                return missing
        log.info("Running local_init_op.")
        session.run(
            self._local_init_op,
            feed_dict=self._local_init_feeds,
            options=self._local_init_options,
        )
        log.info("Done running local_init_op.")
        return None


def _restored(session: Any, saver: Any, directory: Any, file: Any) -> bool:
    """Restore a checkpoint, if there is one; whether there was."""
    if directory and file:
        raise ValueError("Can not provide both checkpoint_dir and checkpoint_filename_with_path.")
    if saver is None or not (directory or file):
        return False
    if file:
        saver.restore(session, file)
        return True
    state = get_checkpoint_state(directory)
    if state is None or not state.model_checkpoint_path:
        return False
    saver.restore(session, state.model_checkpoint_path)
    saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
    return True


def _missing(session: Any, ready_op: Any) -> str | None:
    """What the op finds not to be initialised, in words; None if the model is ready for it.

    An op that reads a variable which has no value finds that one, too.
    """
    if ready_op is None:
        return None
    try:
        found = session.run(ready_op)
    except FailedPreconditionError as error:
        if "uninitialized" not in str(error):
            raise
        return str(error)
    if found is None or found.dtype == np.int32 or found.size == 0:
        return None
    return f"Variables not initialized: {', '.join(name.decode() for name in found)}"
