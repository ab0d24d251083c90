"""What the runs of one TensorFlow session have in common."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final

import tensorflow

from stepscope.adapters.tensorflow.capture.graphs import NodeInfo
from stepscope.adapters.tensorflow.capture.step_stats_capture import ToldByTensorFlow
from stepscope.adapters.tensorflow.runs import session_graph
from stepscope.metadata import AllocationColumns

v1 = tensorflow.compat.v1
_KINDS: Final = 256


class SharedByRuns:
    """What the runs of one session have in common."""

    def __init__(self, config: Any = None) -> None:
        """`config` is the session's; TensorFlow's own sessions do not tell theirs."""
        self.config = config if config is not None else v1.ConfigProto()
        self.timeout_ms: int = self.config.operation_timeout_in_ms
        self.builds_cost_model = self.config.graph_options.build_cost_model > 0
        self._kinds: dict[tuple[int, ...], tuple[list[Any], session_graph.Kind]] = {}
        """By the identity of what is fetched and fed, that, and the kind of run it makes."""
        self.graphs: dict[session_graph.Kind, ToldByTensorFlow] = {}
        """By kind of run, what has its graphs as executed."""
        self.resets: dict[tuple[session_graph.Kind, str], bool] = {}
        """By kind of run and watches, whether the first such run reset the disk byte usage."""
        self.nodes: dict[
            session_graph.Kind, tuple[ToldByTensorFlow | None, Mapping[str, NodeInfo]]
        ] = {}
        """The nodes of these graphs, and what told them."""
        self.ended_well: set[session_graph.Kind] = set()
        """The kinds of runs of which one was profiled, and none failed since."""
        self.prepared: set[session_graph.Kind] = set()
        """The kinds of runs that have ended once, so that TensorFlow has their graph ready."""
        self.waiting: set[threading.Event] = set()
        """What wakes those who wait for a run with a deadline."""
        self.threads: set[threading.Thread] = set()
        """The threads of such runs, as long as these are under way."""
        self.closed = False
        self.logs_nodes = False
        """Whether the session's executors are ours, which can log what nodes do."""
        self.fitted: Callable[[], AllocationColumns] | None = None
        """The allocations of the last traced run on a cluster that ended well."""
        self.sources: Callable[[], dict[str, str]] | None = None
        """The lines that made the nodes, where others than TensorFlow's graph know them."""

    def kind_of(self, fetches: Any, feed_dict: Any) -> session_graph.Kind:
        """The kind of a run: the names are looked up once for the same tensors."""
        found = [*session_graph.leaves(fetches), None, *(feed_dict or ())]
        key = tuple(map(id, found))
        known = self._kinds.get(key)
        if known is None:
            if len(self._kinds) >= _KINDS:
                self._kinds.clear()
            known = self._kinds[key] = found, session_graph.Kind(fetches, feed_dict)
        return known[1]


_shared: weakref.WeakKeyDictionary[Any, SharedByRuns] = weakref.WeakKeyDictionary()


def shared_by_runs_of(session: Any, config: Any = None) -> SharedByRuns:
    """What the runs of this session have in common; made the first time it is asked for."""
    shared = _shared.get(session)
    return _shared.setdefault(session, SharedByRuns(config)) if shared is None else shared
