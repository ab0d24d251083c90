"""`Session`: TensorFlow's own session, under the contract.

Without options and metadata it is TensorFlow's session, untouched but for the errors, which are
ours as well. How a run with options is done is in `session_run`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow

from stepscope import options as opts
from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.failures import raise_with
from stepscope.adapters.tensorflow.node_log import build
from stepscope.adapters.tensorflow.runs.cluster import ClusterRun, check_config, is_cluster
from stepscope.adapters.tensorflow.runs.session_run import GRACE_S, SessionRun
from stepscope.adapters.tensorflow.runs.session_shared import shared_by_runs_of
from stepscope.adapters.tensorflow.support import check
from stepscope.metadata import RunMetadata, as_run_metadata_target

v1 = tensorflow.compat.v1


def logging_config(target: str | bytes, config: Any) -> Any:
    """The configuration of a session whose executors are ours; None where they cannot be.

    They cannot without a library, on a cluster, and where the program chose others.
    """
    kind = build.executor_type()
    if not kind or is_cluster(target or ""):
        return None
    made = v1.ConfigProto()
    made.CopyFrom(config if config is not None else versions.default_config())
    if made.experimental.executor_type not in ("", "DEFAULT"):
        return None
    made.experimental.executor_type = kind
    return made


class Session(v1.Session):  # type: ignore[misc, name-defined]
    """A `tf.compat.v1.Session` whose `run` takes our options and metadata, or TensorFlow's own.

    A target `grpc://host:port` is a server of TensorFlow's own cluster; "" is this process.
    """

    def __init__(self, target: str = "", graph: Any = None, config: Any = None) -> None:
        self._session = None  # where the configuration is refused, there is none to be deleted
        if config is not None and not isinstance(config, v1.ConfigProto):
            config = v1.ConfigProto.FromString(opts.as_config(config).SerializeToString())
        self._kind_of_run: type[SessionRun] = ClusterRun if is_cluster(target) else SessionRun
        if is_cluster(target):
            check_config(config)
        build.use_if_built()
        logged = logging_config(target, config)
        config = logged if logged is not None else config
        super().__init__(target, graph=graph, config=config)
        self._stepscope = shared_by_runs_of(self, config)
        self._stepscope.logs_nodes = logged is not None

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """As TensorFlow's, with options and metadata under the contract."""
        plain = options is None and run_metadata is None
        if plain and not self._stepscope.timeout_ms:
            return self._plain_run(fetches, feed_dict)
        asked = opts.as_run_options(options)
        if asked is not None:
            check(asked.resolve(), self._kind_of_run.engine)
        target = as_run_metadata_target(run_metadata)
        run = self._new_run(fetches, feed_dict, asked)
        try:
            try:
                result = run.execute()
            except BaseException as error:  # noqa: BLE001 - raised again
                raise_with(error, target.deliver(run.failed(error)))
            if target.asked_for:
                target.deliver(run.succeeded())
        finally:
            run.capture.over()
        return result

    def _new_run(self, fetches: Any, feed_dict: Any, asked: opts.RunOptions | None) -> SessionRun:
        return self._kind_of_run(
            self.graph, self.native_run, self._stepscope, fetches, feed_dict, asked
        )

    def _plain_run(self, fetches: Any, feed_dict: Any) -> Any:
        """TensorFlow's own run, whose errors are ours as well and say how it ended."""
        try:
            return self.native_run(fetches, feed_dict)
        except (tensorflow.errors.OpError, KeyboardInterrupt) as error:
            metadata = RunMetadata()
            metadata.record(self._new_run(fetches, feed_dict, None).recording(error))
            raise_with(error, metadata)

    def close(self) -> None:
        """As TensorFlow's; runs with a deadline give up what they are doing.

        TensorFlow waits for ops that cannot be cancelled. Where such a run was left to itself, or
        is now, that is done on another thread.
        """
        shared = self._stepscope
        shared.closed = True
        if not shared.threads:
            super().close()
            return
        closing = threading.Thread(target=super().close, name="stepscope/close", daemon=True)
        closing.start()
        closing.join(GRACE_S)
        for waiting in list(shared.waiting):
            waiting.set()

    def native_run(self, *args: Any, **kwargs: Any) -> Any:
        """TensorFlow's own `run`."""
        return super().run(*args, **kwargs)

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False
    ) -> Callable[..., Any]:
        """As TensorFlow's; with `accept_options` it takes ours as well."""
        if not accept_options:
            function: Callable[..., Any] = super().make_callable(fetches, feed_list)
            return function
        feeds = list(feed_list or ())

        def call(*args: Any, options: Any = None, run_metadata: Any = None) -> Any:
            if len(args) != len(feeds):
                raise TypeError(f"This callable takes {len(feeds)} feeds, not {len(args)}.")
            given = dict(zip(feeds, args, strict=True))
            return self.run(fetches, given, options=options, run_metadata=run_metadata)

        return call
