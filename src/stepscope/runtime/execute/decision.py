"""Where a run executes: decided before anything runs, and a value.

In this order:
1. `inter_op_thread_pool=-1` and one partition: the caller's thread, inline; a deadline is looked at
   between ops.
2. `use_run_handler_pool`, in a session without pools of its own: the process-wide pool, by rank.
3. A pool that was asked for (configured pools), a deadline, or ops that gain from running in
   parallel (`pool_gain`): the pool; inline as one task when nothing gains and nothing may block,
   else pooled, with BLAS's threads shared out among the products that run side by side.
4. Otherwise inline on the caller's thread: handing the run over would gain nothing.

A plan with branches and loops takes an executor of its own (`flow_run`) in the place of either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol, TypeAlias

from stepscope.metadata import Loss
from stepscope.options import ResolvedRunOptions

Place: TypeAlias = Literal["caller", "pool", "run handler"]
ExecutorKind: TypeAlias = Literal["inline", "pooled", "flow"]
Products: TypeAlias = Literal["as they are", "one by one", "side by side"]


class Planned(Protocol):
    """What the decision depends on of a plan."""

    @property
    def partitions(self) -> int:
        """On how many devices it runs."""

    @property
    def has_flow(self) -> bool:
        """Whether it has branches and loops."""

    @property
    def has_blocking(self) -> bool:
        """Whether a step may block its thread."""

    @property
    def serial(self) -> bool:
        """Whether no two steps could run side by side."""

    @property
    def may_wait(self) -> bool:
        """Whether a step may wait for another one of the same run."""


class Pools(NamedTuple):
    """How the session is configured."""

    sizes: tuple[int, ...]
    """How many threads each of its pools has."""
    own: bool
    """Whether it has pools of its own."""
    stays_on_caller: bool
    """Whether its runs are to stay on the caller's thread."""


class Decision(NamedTuple):
    """Where a run executes, and how."""

    place: Place
    executor: ExecutorKind
    pool: int = 0
    """Which of the session's pools, where the place is one."""
    products: Products = "as they are"
    """How matrix products come, and so how BLAS's threads are shared out."""
    losses: tuple[Loss, ...] = ()
    """What was asked for and has no effect here."""


def decide(
    plan: Planned,
    options: ResolvedRunOptions,
    pools: Pools,
    has_deadline: bool,
    gains: Callable[[int], bool],
) -> Decision:
    """The decision for one run.

    `gains(workers)` says whether the plan is done sooner on a pool of that size; it is asked only
    where that matters.
    """
    asked_for_caller = options.inter_op_thread_pool == -1
    on_caller = (asked_for_caller or pools.stays_on_caller) and plan.partitions == 1
    losses = _without_effect(options, pools, on_caller=on_caller)
    executor: ExecutorKind = "flow" if plan.has_flow else "inline"
    if on_caller:
        return Decision("caller", executor, 0, "as they are", losses)
    handled = options.use_run_handler_pool and not losses
    # To stay on the caller's thread with several partitions means pool 0.
    asked_for_pool = pools.own or handled or asked_for_caller
    pool = max(0, options.inter_op_thread_pool)
    alone = plan.serial
    if not alone and not asked_for_pool and plan.partitions == 1 and not plan.may_wait:
        alone = not gains(pools.sizes[pool])
    products: Products = "one by one" if alone else "side by side"
    if alone and not has_deadline and not asked_for_pool:
        return Decision("caller", executor, 0, products, losses)
    # A step that may block has to give up its worker, which the pooled executor does.
    if executor == "inline" and (not alone or plan.has_blocking):
        executor = "pooled"
    return Decision("run handler" if handled else "pool", executor, pool, products, losses)


def _without_effect(
    options: ResolvedRunOptions, pools: Pools, *, on_caller: bool
) -> tuple[Loss, ...]:
    """Fields of the run handler pool that were set and do nothing here."""
    field, reason = "experimental.use_run_handler_pool", ""
    if not options.use_run_handler_pool:
        if not options.run_handler_priority:
            return ()
        field = "experimental.run_handler_pool_options.priority"
        reason = "use_run_handler_pool is off"
    elif pools.own:
        reason = "the session has thread pools of its own"
    elif on_caller:
        reason = "the run stays on the caller's thread"
    return (Loss(field, 1, f"no effect: {reason}"),) if reason else ()
