"""`run` and `observe`: functions, eager code and any callable with TensorFlow ops in it.

Guarantees. The callable runs on the caller's thread, as it would without us: gradient tapes, device
scopes and all else that TensorFlow keeps per thread stay as they are. Whatever it raises is raised,
with `run_metadata` on it. A deadline cancels the functions this thread is calling, and no others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from stepscope import options as opts
from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture import python_ops
from stepscope.adapters.tensorflow.capture.called_ops import CalledOps, CallSites
from stepscope.adapters.tensorflow.capture.capture import Capture, FindNodes, Nodes
from stepscope.adapters.tensorflow.capture.graph_lines import (
    called_lines,
    executed_lines,
    lines_of,
    missing_lines,
    written_lines,
)
from stepscope.adapters.tensorflow.capture.graphs import TAG, NodeInfo, functions
from stepscope.adapters.tensorflow.capture.logged_capture import LoggedCapture
from stepscope.adapters.tensorflow.capture.profiled_capture import ProfiledCapture
from stepscope.adapters.tensorflow.failures import (
    Failure,
    both_classes,
    in_flight_unknown,
    new_error,
    nodes_missing,
    raise_with,
)
from stepscope.adapters.tensorflow.memory.memory_events import allocator_tells
from stepscope.adapters.tensorflow.memory.run_memory import CapturedMemory
from stepscope.adapters.tensorflow.node_log import build
from stepscope.adapters.tensorflow.node_log.executed_graph import function_graphs, versions_of
from stepscope.adapters.tensorflow.node_log.function_log import is_traced, log_of_call
from stepscope.adapters.tensorflow.node_log.log import accelerated
from stepscope.adapters.tensorflow.runs import cancelling, interrupts
from stepscope.adapters.tensorflow.runs.deadline import Deadline
from stepscope.adapters.tensorflow.runs.interrupts import Interrupt
from stepscope.adapters.tensorflow.support import EAGER, FUNCTION, check, only_traces, step_ids
from stepscope.metadata import (
    Completeness,
    InFlight,
    Loss,
    Recording,
    RunMetadata,
    RunMetadataTarget,
    RunNumbers,
    Status,
    as_run_metadata_target,
)
from stepscope.metadata.xplane import COMPILED

_WAITED_NS = 20_000_000
"""An op that ends this long after the deadline was not cancelled."""
NO_LINES = (
    "TensorFlow keeps no line of them: they are of input pipelines, of functions that were loaded "
    "or that have nodes of one name from several lines, called by no line of the program, or made "
    "by an optimizer under names that do not tell from what"
)
_RUN_RESULT = "_retval_RetVal"


def run(
    callable: Callable[..., Any], *args: Any, options: Any = None, run_metadata: Any = None,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Call it once as one run under the contract, and return what it returns.

    Without options it is traced fully where `run_metadata` asks for the outcome, else not at all.
    """
    function = callable if versions.is_function(callable) else None
    if options is None and run_metadata is None:
        return _run_untraced(callable, args, kwargs, function, None, None)
    resolved, asked = _resolve(options, traced=options is None)
    if only_traces(resolved):
        target = as_run_metadata_target(run_metadata)
        if not resolved.trace_level:
            return _run_untraced(callable, args, kwargs, function, asked, target)
        if function is not None:
            capture = _logged_alone(function, resolved)
            if capture is not None:
                return _run_logged(args, kwargs, function, capture, resolved, asked, target)
    return run_step(functools.partial(callable, *args, **kwargs), function, options, run_metadata)


def _run_untraced(
    callable: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], function: Any,
    asked: opts.RunOptions | None, target: RunMetadataTarget | None,
) -> Any:  # fmt: skip
    """A call that nothing is recorded of: what of the contract holds for it, for a few us.

    Control-C ends a function that waits, and what is raised has the metadata on it.
    """
    interrupt: Interrupt | None = None
    try:
        if function is None:
            with python_ops.timed:
                result = callable(*args, **kwargs)
        elif interrupts.applies():
            with interrupts.cancelling_function() as interrupt:
                result = function(*args, **kwargs)
        else:
            result = function(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001 - raised again
        engine = EAGER if function is None else FUNCTION
        observed = Observed(engine, opts.DEFAULT_RESOLVED, asked, _graph_of(function))
        observed.ended(error, interrupt)
        target = target or as_run_metadata_target(None)
        raise_with(error, target.deliver(observed.recording()))
    if target is not None and target.asked_for:
        engine = EAGER if function is None else FUNCTION
        target.deliver(Recording(engine=engine, step_id=next(step_ids), run_options=asked))
    return result


def _run_logged(
    args: tuple[Any, ...], kwargs: dict[str, Any], function: Any, capture: LoggedCapture,
    options: opts.ResolvedRunOptions, asked: opts.RunOptions | None, target: RunMetadataTarget,
) -> Any:  # fmt: skip
    """A call that our executor sees all of: what it was is worked out when somebody looks."""
    step_id = next(step_ids)
    interrupt: Interrupt | None = None
    capture.functions_before = versions.registered_functions()

    def observed() -> Observed:
        graph = _graph_of(function)
        return Observed(FUNCTION, options, asked, graph, function, capture=capture, step_id=step_id)

    try:
        try:
            with versions.first_calls(capture.first_calls, traced=True), capture:
                if interrupts.applies():
                    with interrupts.cancelling_function() as interrupt:
                        result = function(*args, **kwargs)
                else:
                    result = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - raised again
            run = observed()
            run.memory.given(_named(args))
            run.ended(error, interrupt)
            raise_with(error, target.deliver(run.failed()))
        if target.asked_for:
            target.deliver(lambda: observed().recording())
    finally:
        capture.over()
    return result


def _logged_alone(function: Any, options: opts.ResolvedRunOptions) -> LoggedCapture | None:
    """The capture of a call that our executor sees all of; None where it does not."""
    full = options.trace_level >= opts.RunOptions.FULL_TRACE
    if full:
        build.use_if_built()
    log = log_of_call(function, outputs=full)
    if log is None or not log.sees_all or allocator_tells() or accelerated():
        return None
    return LoggedCapture(options.trace_level, log)


def _named(args: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    return ((f"argument {place}", value) for place, value in enumerate(args))


def run_step(
    call: functools.partial[Any], function: Any, options: Any, run_metadata: Any,
    then: Callable[[BaseException | None, Any], None] | None = None,
) -> Any:  # fmt: skip
    """Make a call as one run; `function` is the TensorFlow function that it is a call of, if it is.

    What is around the function (Keras has some Python there) may be part of the call. `then` is
    called when the metadata are there, with what it raised and what it gave: the caller waits for
    that, too.
    """
    resolved, asked = _resolve(options, traced=run_metadata is not None)
    engine = EAGER if function is None else FUNCTION
    check(resolved, engine)
    target = as_run_metadata_target(run_metadata)
    if function is not None and resolved.trace_level >= opts.RunOptions.FULL_TRACE:
        # The function is instantiated anew for its graphs: for both in one.
        build.use_if_built()
    observed = Observed(
        engine, resolved, asked, _graph_of(function), function, by_log=call.func is function
    )
    observed.interruptible = True
    try:
        try:
            with observed:
                result = call()
        except BaseException as error:  # noqa: BLE001 - raised again
            observed.memory.given(_named(call.args))
            metadata = target.deliver(observed.failed())
            if then is not None:
                then(error, None)
            raise_with(error, metadata)
        if target.asked_for:
            target.deliver(observed.succeeded())
        if then is not None:
            then(None, result)
        if function is not None and resolved.trace_level:
            # Not before the first run: it would have to make the function ready for it.
            build.use_if_built()
    finally:
        observed.capture.over()
    return result


@contextmanager
def observe(options: Any = None, run_metadata: Any = None) -> Iterator[RunMetadata]:
    """Everything this thread runs in the block, as one run; the metadata is filled at its end."""
    resolved, asked = _resolve(options, traced=True)
    if resolved.timeout_in_ms > 0:
        raise new_error(
            "InvalidArgumentError",
            "RunOptions.timeout_in_ms: a block cannot be given a deadline; use run(callable).",
        )
    check(resolved, EAGER)
    target = as_run_metadata_target(run_metadata)
    observed = Observed(EAGER, resolved, asked, None)
    try:
        try:
            with observed:
                yield target.metadata
        except BaseException as error:  # noqa: BLE001 - raised again
            raise_with(error, target.deliver(observed.failed()))
        target.deliver(observed.recording())
    finally:
        observed.capture.over()


def _resolve(
    options: Any, *, traced: bool
) -> tuple[opts.ResolvedRunOptions, opts.RunOptions | None]:
    asked = opts.as_run_options(options)
    if asked is None and not traced:
        return opts.DEFAULT_RESOLVED, None
    if asked is None:
        asked = opts.RunOptions(trace_level=opts.RunOptions.FULL_TRACE)
    return asked.resolve(), asked


def _graph_of(function: Any) -> Any:
    """The graph of a concrete function, whose ops know their source lines."""
    return function.graph if versions.is_concrete_function(function) else None


class Observed:
    """One run, from entering it to its recording."""

    needs_no_profiler = False
    """Whether what it did is known when it is over, without the profiler."""

    function: Any = None
    """The function that is called, whose traces know their source lines."""
    sites: CallSites | None = None
    """The names of its eager ops, where it shares them with other stretches of a program."""
    interruptible = False
    """Whether Control-C is to end a function that waits, and not to be waited with."""
    _failure: Failure | None = None
    _deadline: Deadline | None = None
    _interrupt: Interrupt | None = None

    def __init__(
        self, engine: str, options: opts.ResolvedRunOptions, asked: opts.RunOptions | None,
        graph: Any, function: Any = None, *, by_log: bool = False,
        capture: Capture | None = None, step_id: int = 0,
    ) -> None:  # fmt: skip
        """With `by_log` the run is a call of its function and nothing else, and is logged by our
        executor if that can be. `capture` is what records it, where that is decided already.
        """
        self.engine = engine
        self._options = options
        self._asked = asked
        self.graph = graph
        """What the user wrote, where it is one function; None for other code."""
        self.function = function
        self.step_id = step_id or next(step_ids)
        self.memory = CapturedMemory(options, self.step_id)
        self._needs_graphs = (
            options.output_partition_graphs or options.trace_level >= 3 or self.memory.needs_graphs
        )
        # Which graphs a run executed is seen from its ops.
        level = self.memory.level or int(options.output_partition_graphs and graph is None)
        self._by_our_executor = capture is not None and capture.logs_alone
        self.capture = capture or self._new_capture(level, by_log=by_log)

    def _new_capture(self, level: int, *, by_log: bool) -> Capture:
        if not level:
            return ProfiledCapture(0)
        others = allocator_tells() or accelerated()
        log = log_of_call(self.function, outputs=level >= 3) if by_log else None
        if by_log:
            self._by_our_executor = log is not None or not is_traced(self.function)
        if log is not None and log.sees_all and not others:
            return LoggedCapture(level, log)
        # What eager code calls is seen without the profiler, but for functions and the allocator.
        return ProfiledCapture(level, log, later=self.engine == EAGER and not others)

    def __enter__(self) -> None:
        options = self._options
        stack = self._stack = ExitStack()
        alone = self.capture.logs_alone  # a call of one function: none of its ops is eager
        later = self.capture.later
        if self._needs_graphs and self.capture.log is None and not later:
            self._collect_graphs()
        if not alone:
            stack.enter_context(python_ops.timed)
        if options.timeout_in_ms > 0:
            self.capture.patience_s = options.timeout_in_ms / 1000
        notes = self._called_ops(later=later) if self.capture.level and not alone else None
        if self.capture.level:
            self.capture.functions_before = versions.registered_functions()
            stack.enter_context(
                versions.first_calls(
                    self.capture.first_calls, traced=self._by_our_executor,
                    before=notes.others_run if notes is not None else None,
                )
            )  # fmt: skip
        stack.enter_context(self.capture)
        if notes is not None:
            stack.enter_context(notes.noting())
        if options.timeout_in_ms > 0:
            eager = self.engine == EAGER
            self._deadline = stack.enter_context(Deadline(options.timeout_in_ms, eager=eager))
        if self.interruptible and self.engine == FUNCTION and interrupts.applies():
            if self._deadline is None and alone:
                self._interrupt = stack.enter_context(interrupts.cancelling_function())
                return
            if self._deadline is not None:
                called = self._deadline.called
            else:
                called = stack.enter_context(cancelling.cancellable())
            self._interrupt = stack.enter_context(interrupts.cancelling_it(called))

    def _collect_graphs(self) -> None:
        self._stack.enter_context(functions.collect())
        self._stack.enter_context(versions.function_options(TAG))

    def _called_ops(self, *, later: bool) -> CalledOps:
        """Notes of what it calls; with `later`, all else begins with the first function called."""

        def others_run() -> None:
            if self._needs_graphs:
                self._collect_graphs()
            self.capture.profile_from_now()

        called = self.capture.called = CalledOps(
            outputs=self._options.trace_level >= opts.RunOptions.FULL_TRACE,
            held=self.memory.needs_outputs,
            before_others=others_run if later else None,
        )
        if self.sites is not None:
            called.sites = self.sites
        return called

    def __exit__(self, _kind: Any, error: BaseException | None, _traceback: Any) -> None:
        ends_with = error
        if self._deadline is not None:
            ends_with = self._deadline.ended(error)
            self.capture.out_of_time = self._deadline.passed
        if isinstance(error, KeyboardInterrupt):
            self.capture.out_of_time = True
        self._stack.__exit__(None, None, None)
        self.memory.failed(error)
        if ends_with is not None:
            both_classes(ends_with)
            self._failure = Failure.of(ends_with)
        try:
            if ends_with is not None and ends_with is not error:
                raise ends_with from error
        finally:
            del ends_with  # it has this frame in its traceback

    def ended(self, error: BaseException, interrupt: Interrupt | None) -> None:
        """It was never entered, and raised this; `interrupt` says whether Control-C came."""
        self._interrupt = interrupt if interrupt is not None and interrupt.at_epoch else None
        if isinstance(error, KeyboardInterrupt):
            self.capture.out_of_time = True
        self.memory.failed(error)
        both_classes(error)
        self._failure = Failure.of(error)

    # -- what it was ---------------------------------------------------------------------------

    def failed(self) -> Recording | Callable[[], Recording]:
        """The run as it ended, or what makes that when somebody looks: its caller has no time."""
        later = self.capture.level > 0 and self.capture.out_of_time
        return self.recording if later else self.recording()

    def succeeded(self) -> Recording | Callable[[], Recording]:
        """The same of a run that raised nothing: one that was logged alone has all it needs."""
        return self.recording if self.capture.logs_alone else self.recording()

    def numbers(self) -> RunNumbers | None:
        """What is the run's own, should it be like others of its function; see `RunNumbers`."""
        like = self.engine, self._needs_graphs, versions_of(self._written_graphs())
        return self.capture.numbers(like, self.engine, self.step_id)

    # Long: each part is what the next one asks, decoded lazily; apart they would pass it all on.
    def recording(self) -> Recording:
        """The run as it ended."""
        capture = self.capture
        capture.finish()
        failure = self._failure
        traced = self._options.trace_level > 0
        matched: list[tuple[list[Any], dict[str, NodeInfo]]] = []

        logged = capture.logged()

        def graphs_and_nodes() -> tuple[list[Any], dict[str, NodeInfo]]:
            if not matched:
                matched.append(self._matching())
            return matched[0]

        def nodes() -> Nodes:
            return logged.graphs.info if logged is not None else graphs_and_nodes()[1]

        def graphs() -> list[Any]:
            return graphs_and_nodes()[0]

        sources: Callable[[], dict[str, str]] = self._sources
        if logged is not None and traced:
            written = self._written_graphs()
            graphs = logged.graphs.shared(
                "function graphs", written, lambda: [function_graphs(logged.graphs, written)]
            )
            if capture.has_log_alone:
                sources = logged.graphs.shared("sources", written, self._sources)
        capture.failed = failure is not None
        memory, memory_losses = self.memory.fields(capture, nodes, sources)
        status = failure.status if failure is not None else Status()
        status = replace(
            status,
            message=self.memory.explained or status.message,
            outcomes=self._outcomes() or status.outcomes,
        )
        losses = [*capture.losses, *self._missing(status, nodes)]
        wants_graphs = self._options.output_partition_graphs
        if failure is not None and wants_graphs and self.engine == FUNCTION and not nodes():
            losses.append(Loss("partition graphs", 0, "TensorFlow gives none of a run that failed"))

        return Recording(
            engine=self.engine,
            recorder=capture.recorder() if traced else "",
            step_id=self.step_id,
            status=status,
            completeness=lambda: Completeness(
                (
                    *losses,
                    *(capture.unseen() if traced else ()),
                    *(capture.cut_off(nodes()) if traced else ()),
                    *memory_losses(),
                    *(self._of_calls() if traced else ()),
                    *self._without_lines(),
                    *self._compiled(),
                )
            ),
            overhead=capture.overhead,
            ops=(lambda: capture.columns(self.step_id, nodes)) if traced else None,
            partition_graphs=(
                (lambda: [p for g in graphs() for p in g.partition_graphs])
                if wants_graphs
                else None
            ),
            function_graphs=graphs if self._needs_graphs else None,
            sources=sources if traced else None,
            log=capture.storable(memory) if traced else None,
            run_options=self._asked,
            call=capture.call(),
            **memory,
        )

    def _compiled(self) -> list[Loss]:
        """What XLA made of functions as a whole."""
        if not self._options.trace_level:
            return []
        logged = self.capture.logged_alone()
        if logged is not None and COMPILED not in logged.graphs.facts.ops.table:
            return []
        names = [name for name, op, _ in self.capture.executed() if op == COMPILED]
        if not names:
            return []
        reason = f"XLA compiled these functions, each of which is timed as one: {', '.join(names)}"
        return [Loss("ops of compiled functions", 0, reason)]

    def _written_graphs(self) -> list[Any]:
        """What the user wrote, as TensorFlow traced it."""
        return [self.graph] if self.graph is not None else versions.traced_graphs(self.function)

    def _sources(self) -> dict[str, str]:
        written = self._written_graphs()
        logged = self.capture.logged_alone()
        if logged is not None:
            return lines_of(written, logged.graphs, self._interface).lines
        called = self.capture.called
        found, interface = called_lines(called.functions if called is not None else ())
        for graph in written:
            found |= written_lines(graph)
        if written:
            interface |= self._interface()
        names = {name for name, _, _ in self.capture.executed()}
        if found:
            found |= executed_lines(found, names, interface)
        return found | (called.sites.lines if called is not None else {})

    def _interface(self) -> dict[str, str]:
        return versions.function_interface(self.function)

    def _of_calls(self) -> list[Loss]:
        """What is not known of eager ops; of their times a full record alone says it."""
        called = self.capture.called
        if called is None or not self.capture.calls():
            return []
        full = self._options.trace_level >= opts.RunOptions.FULL_TRACE
        return [*(called.losses() if full else ()), *called.broken_off()]

    def _without_lines(self) -> list[Loss]:
        """Ops whose lines are not known."""
        if not self._options.trace_level:
            return []
        logged = self.capture.logged_alone()
        if logged is not None:
            known = lines_of(self._written_graphs(), logged.graphs, self._interface)
            count = int(logged.times_executed(failed=self.capture.failed)[known.missing].sum())
            return [Loss("source lines", count, NO_LINES)] if count else []
        executed = self.capture.executed()
        return missing_lines(executed, self._sources(), NO_LINES)

    def _matching(self) -> tuple[list[Any], dict[str, NodeInfo]]:
        """The graphs that this run executed, as far as they were ever collected, and their nodes.

        One has to hold most nodes of a step, and of the function where that is known: functions of
        other runs have nodes of the same names.
        """
        graph = self.graph
        written = [(op.name, op.type) for op in graph.get_operations()] if graph is not None else []
        whole = {name for name, _ in written}
        graphs: list[Any] = []
        known: dict[str, NodeInfo] = {}
        for names in self.capture.step_names() or [set()]:
            matched = functions.matching(names | whole, written)
            if matched is None:
                continue
            nodes = matched[1]
            if any(name.endswith(_RUN_RESULT) for name in names):
                nodes = {_as_run(name): info for name, info in nodes.items()}
            if all(2 * len(some & nodes.keys()) >= len(some) for some in (names, whole)):
                known.update(nodes)
                if not any(matched[0] is other for other in graphs):
                    graphs.append(matched[0])
        return graphs, known

    def _missing(self, status: Status, nodes: FindNodes) -> list[Loss]:
        """What the record lacks beyond what the profiler could not see."""
        if status.ok:
            return []
        losses = []
        traced = self._options.trace_level > 0
        if traced:
            executed = {name for name, _, _ in self.capture.executed()}
            whole = set(nodes()) if self.engine == FUNCTION else set()
            if not whole and self.graph is not None:
                whole = {op.name for op in self.graph.get_operations()}
            if not whole or whole - executed:
                losses.append(nodes_missing(status, len(whole - executed)))
        if not status.in_flight:
            why = "nothing named it" if traced else "nothing was traced"
            if self._deadline is not None and self._deadline.passed and self._deadline.between_ops:
                why = "there was none: the time was up between two ops"
            losses.append(in_flight_unknown(why))
        return losses

    def _outcomes(self) -> tuple[InFlight, ...]:
        """The ops that were executing at the deadline, and what became of them."""
        deadline = self._deadline
        failure = self._failure
        if failure is not None and failure.interrupted and self._interrupt is not None:
            return self._traced_outcomes(self._interrupt.at_epoch) or tuple(
                InFlight(name, "cancelled") for name in failure.cancelled
            )
        if deadline is None or not deadline.passed:
            return ()
        found = deadline.eager_outcome()
        if not found and not deadline.between_ops:
            found = self._traced_outcomes(deadline.at_epoch) or deadline.function_outcomes()
        return found

    def _traced_outcomes(self, at: int) -> tuple[InFlight, ...]:
        """The ops of a function that were executing at this time."""
        capture = self.capture
        doing = capture.doing_at(at)
        found = {row: row.end_ns - at for row in doing.going}
        found |= {row: 0 for row in capture.unfinished() if row.start_ns < at and row not in found}
        if not found and doing.last is not None and not capture.truncated:
            # Between two ops: the one that had just been executed.
            found = {doing.last: 0}
        return tuple(
            InFlight(row.name, "waited_for" if late > _WAITED_NS else "cancelled", max(0, late))
            for row, late in found.items()
        )


def _as_run(name: str) -> str:
    """The name under which a function's result is executed, of the one in its graph."""
    stem = name.removesuffix("_RetVal")
    return name if stem == name else stem + _RUN_RESULT
