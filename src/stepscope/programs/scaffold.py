"""`Scaffold`: what a training session needs of its graph, and the sessions made from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.graph import GraphKeys, get_default_graph
from stepscope.ops.flow import ordering
from stepscope.ops.io.summaries import merge_all
from stepscope.ops.state import variable_collections as variables
from stepscope.ops.state.table_initializers import tables_initializer
from stepscope.programs import log
from stepscope.programs.saving.saver import saver_of_graph
from stepscope.programs.session_manager import SessionManager


class Scaffold:
    """The ops that initialise, save and restore a model and pack its summaries.

    Those not given are made.
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[[Scaffold, Any], None] | None = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Any = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        """`init_fn(scaffold, session)` is called after `init_op` has run."""
        base = copy_from_scaffold
        if base is not None and not isinstance(base, Scaffold):
            raise TypeError("copy_from_scaffold is not a Scaffold instance.")

        def either(given: Any, name: str) -> Any:
            return given if given is not None or base is None else getattr(base, name)

        self._user_init_fn = either(init_fn, "_user_init_fn")
        self.init_op = either(init_op, "init_op")
        self.init_feed_dict = either(init_feed_dict, "init_feed_dict")
        self.ready_op = either(ready_op, "ready_op")
        self.ready_for_local_init_op = either(ready_for_local_init_op, "ready_for_local_init_op")
        self.local_init_op = either(local_init_op, "local_init_op")
        self.local_init_feed_dict = either(local_init_feed_dict, "local_init_feed_dict")
        self.summary_op = either(summary_op, "summary_op")
        self.saver = either(saver, "saver")

    @property
    def init_fn(self) -> Callable[[Any], None] | None:
        function = self._user_init_fn
        return None if function is None else lambda session: function(self, session)

    def finalize(self) -> Scaffold:
        """Make what is missing, in the default graph, and let nothing more be added to it."""
        if self.init_op is None:
            self.init_op = self.get_or_default(
                "init_op", GraphKeys.INIT_OP, variables.global_variables_initializer
            )
        if self.ready_op is None:
            self.ready_op = self.get_or_default(
                "ready_op", GraphKeys.READY_OP, variables.report_uninitialized_variables
            )
        if self.ready_for_local_init_op is None:
            self.ready_for_local_init_op = self.get_or_default(
                "ready_for_local_init_op",
                GraphKeys.READY_FOR_LOCAL_INIT_OP,
                self._default_ready_for_local_init_op,
            )
        if self.local_init_op is None:
            self.local_init_op = self.get_or_default(
                "local_init_op", GraphKeys.LOCAL_INIT_OP, self.default_local_init_op
            )
        if self.summary_op is None:
            self.summary_op = self.get_or_default("summary_op", GraphKeys.SUMMARY_OP, merge_all)
        if self.saver is None:
            self.saver = saver_of_graph()
        self.saver.build()
        get_default_graph().finalize()
        log.info("Graph was finalized.")
        return self

    @staticmethod
    def get_or_default(
        arg_name: str, collection_key: str, default_constructor: Callable[[], Any]
    ) -> Any:
        """The one element of a collection; if it is empty, one that is made and added to it."""
        graph = get_default_graph()
        found = graph.get_collection(collection_key)
        if len(found) > 1:
            raise RuntimeError(
                f'More than one item in the collection "{collection_key}". Please indicate which '
                "one to use by passing it to the tf.Scaffold constructor as:  "
                f"tf.Scaffold({arg_name}=item to use)"
            )
        if found:
            return found[0]
        made = default_constructor()
        if made is not None:
            graph.add_to_collection(collection_key, made)
        return made

    @staticmethod
    def _default_ready_for_local_init_op() -> Any:
        return variables.report_uninitialized_variables(variables.global_variables())

    @staticmethod
    def default_local_init_op() -> Any:
        """An op that initialises local variables and fills tables."""
        return ordering.group(variables.local_variables_initializer(), tables_initializer())


class SessionCreator:
    """Something that makes sessions for a `MonitoredSession`."""

    def create_session(self) -> Any:
        raise NotImplementedError("create_session is not implemented.")


class ChiefSessionCreator(SessionCreator):
    """Makes a session whose variables are those of a checkpoint, or else initialised.

    The checkpoint is the one given, or the last of `checkpoint_dir`.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
    ) -> None:
        if checkpoint_dir and checkpoint_filename_with_path:
            raise ValueError(
                "Can not provide both checkpoint_dir and checkpoint_filename_with_path."
            )
        self._scaffold = scaffold or Scaffold()
        self._master = master
        self._config = config
        self._directory = checkpoint_dir
        self._file = checkpoint_filename_with_path

    def create_session(self) -> Any:
        scaffold = self._scaffold.finalize()
        manager = SessionManager(
            local_init_op=scaffold.local_init_op,
            ready_op=scaffold.ready_op,
            ready_for_local_init_op=scaffold.ready_for_local_init_op,
            graph=get_default_graph(),
            local_init_feed_dict=scaffold.local_init_feed_dict,
        )
        return manager.prepare_session(
            self._master,
            init_op=scaffold.init_op,
            saver=scaffold.saver,
            checkpoint_dir=self._directory,
            checkpoint_filename_with_path=self._file,
            config=self._config,
            init_feed_dict=scaffold.init_feed_dict,
            init_fn=scaffold.init_fn,
        )
