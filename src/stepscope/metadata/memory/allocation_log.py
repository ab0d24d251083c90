"""The allocation log: the last allocations and frees of a run, sampled, ready to be shared.

An engine makes it from all events of a run, when somebody looks. What may be relied on:

- *Sampling is deterministic.* Whether an allocation is logged depends on the seed, the op, its
  slot and how often that op has allocated before, not on time, addresses or the order in which
  threads came by.
- *Pairs stay together.* A free is logged exactly where its allocation was; a free of something
  that was allocated before recording began is logged.
- *What matters stays.* An allocation of `large_bytes` or more is never sampled out. A refused
  request is neither sampled out nor pushed out by later events.
- *Nothing vanishes silently.* `dropped` counts the events that the log had no room for,
  `sampled_out` those that sampling left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import orjson

from stepscope.metadata.dtype_names import dtype_name
from stepscope.metadata.memory.allocation_sampling import sampled
from stepscope.metadata.memory.allocations import FAILED, AllocationColumns
from stepscope.metadata.outcome import Loss
from stepscope.options import ALLOCATION_LOG_ADDRESSES

if TYPE_CHECKING:
    from stepscope.options import ResolvedRunOptions

__all__ = [
    "AllocationLog",
    "LogSettings",
    "extract_allocation_log",
    "json_of",
    "log_of",
]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a log is kept: `capacity` events, allocations sampled at `rate` (above 0, up to 1).

    `address_mode` is "anonymous" (small numbers in order of appearance), "raw" or "none".
    """

    capacity: int = 1000
    rate: float = 1.0
    seed: int = 0
    large_bytes: int = 1 << 20
    address_mode: str = ALLOCATION_LOG_ADDRESSES[0]

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ValueError(f"an allocation log of {self.capacity} events; at least 1 is needed")
        if not 0.0 < self.rate <= 1.0:
            raise ValueError(f"a sampling rate of {self.rate}; allowed is above 0, up to 1")
        if self.address_mode not in ALLOCATION_LOG_ADDRESSES:
            raise ValueError(
                f"address mode {self.address_mode!r}; "
                f"allowed are {', '.join(map(repr, ALLOCATION_LOG_ADDRESSES))}"
            )

    @classmethod
    def of(cls, options: ResolvedRunOptions, seed: int = 0) -> Self | None:
        """What the options of a run ask for; None where none of them asks for a log.

        The out-of-memory report brings a log along, and so does any of the log's own options;
        what they leave open is as the defaults say.
        """
        defaults = cls(seed=seed)
        size, rate = options.allocation_log_buffer_size, options.allocation_log_sampling_rate
        address = options.allocation_log_address
        wanted = options.report_tensor_allocations_upon_oom or size or rate is not None
        if not wanted and address == defaults.address_mode:
            return None
        return replace(
            defaults,
            capacity=size or defaults.capacity,
            rate=defaults.rate if rate is None else rate,
            address_mode=address,
        )


@dataclass(frozen=True, slots=True)
class AllocationLog:
    """What a log holds, and how much it does not."""

    columns: AllocationColumns
    dropped: int = 0
    sampled_out: int = 0

    def losses(self, settings: LogSettings) -> tuple[Loss, ...]:
        """What is missing, as `completeness` declares it."""
        losses = []
        if self.dropped:
            reason = (
                f"the allocation log holds the last {settings.capacity:,} events "
                "(allocation_log_buffer_size)"
            )
            losses.append(Loss("allocation events dropped", self.dropped, reason))
        if self.sampled_out:
            reason = (
                f"the allocation log samples at a rate of {settings.rate:g} "
                "(allocation_log_sampling_rate)"
            )
            losses.append(Loss("allocation events sampled out", self.sampled_out, reason))
        return tuple(losses)


def log_of(columns: AllocationColumns, settings: LogSettings) -> AllocationLog:
    """The log of a run, of which these are all events."""
    failed = columns.event == FAILED
    logged = np.ones(len(columns), bool)
    if settings.rate < 1.0:
        logged = sampled(columns, settings.rate, settings.seed, settings.large_bytes)
    kept = np.flatnonzero(logged & ~failed)
    refused = np.flatnonzero(failed)[-settings.capacity :]
    room = settings.capacity - len(refused)
    rows = np.sort(np.concatenate([kept[max(0, len(kept) - room) :], refused]))
    return AllocationLog(
        _readdressed(columns.select(rows), settings.address_mode),
        int(np.count_nonzero(logged)) - len(rows),
        len(columns) - int(np.count_nonzero(logged)),
    )


def _readdressed(columns: AllocationColumns, mode: str) -> AllocationColumns:
    if mode == "raw" or not len(columns):
        return columns
    address = np.zeros(len(columns), np.uint64)
    if mode == "anonymous":
        ids: dict[int, int] = {}
        for row, real in enumerate(columns.address.tolist()):
            if real:
                address[row] = ids.setdefault(real, len(ids) + 1)
    return replace(columns, address=address)


# -- as text -------------------------------------------------------------------------------


def json_of(columns: AllocationColumns) -> str:
    """The events as a JSON array of objects, in order of time.

    Of each event: `op_name`, `slot`, `shape` (null: not known), `dtype` ("float32"), `bytes`
    (negative for a free), `address` (null: not recorded), `device`, `event`, `kind`, `step`,
    `time` (UTC, to the nanosecond) and `time_ns` (since 1970).
    """
    rows = zip(
        columns.name.tolist(),
        columns.slot.tolist(),
        columns.shape.tolist(),
        columns.dtype.tolist(),
        columns.bytes.tolist(),
        columns.address.tolist(),
        columns.device.tolist(),
        columns.event.tolist(),
        columns.kind.tolist(),
        columns.step.tolist(),
        np.datetime_as_string(columns.time_ns.view("datetime64[ns]"), timezone="UTC").tolist(),
        columns.time_ns.tolist(),
        strict=True,
    )
    entries: list[dict[str, Any]] = [
        {
            "op_name": name,
            "slot": slot,
            "shape": None if shape is None else list(shape),
            "dtype": dtype_name(dtype),
            "bytes": size,
            "address": address or None,
            "device": device,
            "event": event,
            "kind": kind,
            "step": step,
            "time": time,
            "time_ns": time_ns,
        }
        for (
            name,
            slot,
            shape,
            dtype,
            size,
            address,
            device,
            event,
            kind,
            step,
            time,
            time_ns,
        ) in rows
    ]
    return orjson.dumps(entries).decode()


def extract_allocation_log(metadata: Any) -> str:
    """The allocation log of a run as JSON: an array of objects, as `json_of` describes them.

    Takes a `RunMetadata` of Stepscope or of TensorFlow, after a run that went well or one that
    failed. An empty array where the run's options asked for no log.
    """
    from stepscope.metadata.run_metadata import as_run_metadata, is_run_metadata

    if not is_run_metadata(metadata):
        raise TypeError(
            "extract_allocation_log() takes the RunMetadata that was given to the run; found "
            f"{type(metadata).__module__}.{type(metadata).__qualname__}"
        )
    return json_of(as_run_metadata(metadata).allocation_log)
