"""What a caller asks of a run and of a session: `RunOptions`, `ConfigProto` and their parts.

The classes have TensorFlow's fields, defaults and wire numbers, behave like its messages, and
refuse names and values that do not exist. An engine calls `as_run_options(...)` on what a user
passed, and `RunOptions.resolve()` for plain, validated values.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from stepscope import _messages
from stepscope._message_backed import MessageBacked
from stepscope._message_fields import check_enums, leaf_fields, same_name
from stepscope.errors import InvalidOptionError

__all__ = [
    "ALLOCATION_LOG_ADDRESSES",
    "DEFAULT_RESOLVED",
    "MAX_ALLOCATION_LOG_BUFFER",
    "CallableOptions",
    "ClusterDef",
    "ConfigProto",
    "DebugOptions",
    "DebugTensorWatch",
    "GPUOptions",
    "GraphOptions",
    "JobDef",
    "MessageBacked",
    "OptimizerOptions",
    "RPCOptions",
    "ResolvedRunOptions",
    "RewriterConfig",
    "RunOptions",
    "SessionMetadata",
    "ThreadPoolOptionProto",
    "as_config",
    "as_debug_options",
    "as_run_options",
    "config_fields",
    "run_option_fields",
]

MAX_ALLOCATION_LOG_BUFFER = 10_000_000
"""The most entries an allocation log may be asked to hold."""

ALLOCATION_LOG_ADDRESSES = ("anonymous", "raw", "none")
"""What `allocation_log_address` may say; empty means the first."""


@dataclass(frozen=True, slots=True)
class ResolvedRunOptions:
    """The options of one run as plain values, validated.

    Shared between runs with the same options: `debug_options` must not be changed.
    """

    trace_level: int = 0
    timeout_in_ms: int = 0
    inter_op_thread_pool: int = 0
    output_partition_graphs: bool = False
    debug_options: Any = None
    report_tensor_allocations_upon_oom: bool = False
    collective_graph_key: int = 0
    use_run_handler_pool: bool = False
    run_handler_priority: int = 0
    allocation_log_buffer_size: int = 0
    allocation_log_sampling_rate: float | None = None
    allocation_log_address: str = ALLOCATION_LOG_ADDRESSES[0]


DEFAULT_RESOLVED = ResolvedRunOptions()
"""What a run without options is given."""
TRACED_ALONE = (DEFAULT_RESOLVED, *(ResolvedRunOptions(trace_level=level) for level in (1, 2, 3)))
"""Options that ask for nothing but a trace, by its level."""


class DebugTensorWatch(MessageBacked):
    """One tensor to watch: node, output slot, debug ops, and the URLs that get their values."""

    __slots__ = ()
    _message_class = _messages.DebugTensorWatch


class DebugOptions(MessageBacked):
    """The tensors of a run to watch."""

    __slots__ = ()
    _message_class = _messages.DebugOptions


class RunOptions(MessageBacked):
    """What to record of one run, and under which terms it runs.

    TensorFlow's fields, and ours: `allocation_log_buffer_size` (entries, 0 to 10,000,000),
    `allocation_log_sampling_rate` (above 0, up to 1), `allocation_log_address` ("anonymous",
    "raw" or "none"). `report_allocations_on_oom` is a second name of
    `report_tensor_allocations_upon_oom`.
    """

    # What `resolve` said last, with the edition of the content it was said of. An object that gave
    # out a part of itself may change unseen: it has no edition.
    __slots__ = ("_edition", "_resolved")
    _message_class = _messages.RunOptionsMessage
    _aliases: ClassVar[dict[str, str]] = {
        "report_allocations_on_oom": "report_tensor_allocations_upon_oom"
    }

    NO_TRACE: ClassVar[int]
    SOFTWARE_TRACE: ClassVar[int]
    HARDWARE_TRACE: ClassVar[int]
    FULL_TRACE: ClassVar[int]
    TraceLevel: ClassVar[Any]
    Experimental: ClassVar[Any]

    @classmethod
    def _check(cls, message: Any) -> None:
        size = message.allocation_log_buffer_size
        if not 0 <= size <= MAX_ALLOCATION_LOG_BUFFER:
            raise InvalidOptionError(
                f"RunOptions.allocation_log_buffer_size is {size}; "
                f"allowed is 0 to {MAX_ALLOCATION_LOG_BUFFER}"
            )
        if message.HasField("allocation_log_sampling_rate"):
            rate = message.allocation_log_sampling_rate
            if not 0.0 < rate <= 1.0:
                raise InvalidOptionError(
                    f"RunOptions.allocation_log_sampling_rate is {rate}; "
                    "allowed is above 0, up to 1 (1 logs every allocation)"
                )
        address = message.allocation_log_address
        if address and address not in ALLOCATION_LOG_ADDRESSES:
            raise InvalidOptionError(
                f"RunOptions.allocation_log_address is {address!r}; "
                f"allowed are {', '.join(map(repr, ALLOCATION_LOG_ADDRESSES))}"
            )

    def __init__(self, **fields: Any) -> None:
        self._set_edition(object())
        super().__init__(**fields)

    def _set_edition(self, edition: object) -> None:
        object.__setattr__(self, "_edition", edition)
        object.__setattr__(self, "_resolved", None)

    def _is_changed(self) -> None:
        if self._edition is not None:
            self._set_edition(object())

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if isinstance(value, MessageBacked):
            self._set_edition(None)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        self._is_changed()

    def _replace(self, message: Any) -> None:
        super()._replace(message)
        self._is_changed()

    def ClearField(self, field_name: str) -> None:
        super().ClearField(field_name)
        self._is_changed()

    def ListFields(self) -> list[tuple[Any, Any]]:
        self._set_edition(None)
        return super().ListFields()

    def resolve(self) -> ResolvedRunOptions:
        """The options as plain values; `InvalidOptionError` for a value that is not allowed."""
        edition = self._edition
        if edition is None:
            return _resolve(self._held.SerializeToString())
        known: tuple[object, ResolvedRunOptions] | None = self._resolved
        if known is None or known[0] is not edition:
            known = edition, _resolve(self._held.SerializeToString())
            object.__setattr__(self, "_resolved", known)
        return known[1]


@functools.lru_cache(maxsize=256)
def _resolve(data: bytes) -> ResolvedRunOptions:
    message = RunOptions._read(data)
    experimental = message.experimental
    rated = message.HasField("allocation_log_sampling_rate")
    found = ResolvedRunOptions(
        trace_level=message.trace_level,
        timeout_in_ms=message.timeout_in_ms,
        inter_op_thread_pool=message.inter_op_thread_pool,
        output_partition_graphs=message.output_partition_graphs,
        debug_options=message.debug_options if message.HasField("debug_options") else None,
        report_tensor_allocations_upon_oom=message.report_tensor_allocations_upon_oom,
        collective_graph_key=experimental.collective_graph_key,
        use_run_handler_pool=experimental.use_run_handler_pool,
        run_handler_priority=experimental.run_handler_pool_options.priority,
        allocation_log_buffer_size=message.allocation_log_buffer_size,
        allocation_log_sampling_rate=message.allocation_log_sampling_rate if rated else None,
        allocation_log_address=message.allocation_log_address or ALLOCATION_LOG_ADDRESSES[0],
    )
    return next((known for known in TRACED_ALONE if known == found), found)


class ThreadPoolOptionProto(MessageBacked):
    """One thread pool of a session: its size, and a name by which sessions share it."""

    __slots__ = ()
    _message_class = _messages.ThreadPoolOptionProto


class OptimizerOptions(MessageBacked):
    """How the graph is optimised before it runs."""

    __slots__ = ()
    _message_class = _messages.OptimizerOptions

    L0: ClassVar[int]
    L1: ClassVar[int]
    DEFAULT: ClassVar[int]
    OFF: ClassVar[int]
    ON_1: ClassVar[int]
    ON_2: ClassVar[int]
    Level: ClassVar[Any]
    GlobalJitLevel: ClassVar[Any]


class RewriterConfig(MessageBacked):
    """Which rewriters of TensorFlow's grappler are on."""

    __slots__ = ()
    _message_class = _messages.RewriterConfig

    ON: ClassVar[int]
    OFF: ClassVar[int]
    AGGRESSIVE: ClassVar[int]
    Toggle: ClassVar[Any]


class GraphOptions(MessageBacked):
    """What a session does with graphs: cost model, optimisation, shapes."""

    __slots__ = ()
    _message_class = _messages.GraphOptions


class GPUOptions(MessageBacked):
    """How GPUs are used."""

    __slots__ = ()
    _message_class = _messages.GPUOptions

    Experimental: ClassVar[Any]


class RPCOptions(MessageBacked):
    """How a cluster's tasks talk to each other."""

    __slots__ = ()
    _message_class = _messages.RPCOptions


class JobDef(MessageBacked):
    """One job of a cluster and the addresses of its tasks."""

    __slots__ = ()
    _message_class = _messages.JobDef


class ClusterDef(MessageBacked):
    """The jobs of a cluster."""

    __slots__ = ()
    _message_class = _messages.ClusterDef


class SessionMetadata(MessageBacked):
    """A name and a version that a session gives to what it records."""

    __slots__ = ()
    _message_class = _messages.SessionMetadata


class ConfigProto(MessageBacked):
    """How a session is set up: devices, thread pools, time-outs, graph options, memory limits.

    TensorFlow's fields, and one of ours: `memory_limit_bytes`, the most bytes that tensors may
    hold on a device of the embedded engine: a number for each device, or a dict of devices
    (`{"/cpu:0": 1 << 30}`) to numbers, where "" stands for the devices that are not named.
    """

    __slots__ = ()
    _message_class = _messages.ConfigProtoMessage

    Experimental: ClassVar[Any]

    def _merge(self, message: Any, name: str, value: Any) -> None:
        if name == "memory_limit_bytes" and hasattr(value, "__index__"):
            value = {"": value.__index__()}
        elif name == "memory_limit_bytes" and value is not None and not hasattr(value, "items"):
            raise TypeError(
                "ConfigProto.memory_limit_bytes takes a whole number of bytes, or a dict of "
                f"devices to such numbers, not {value!r} of type {type(value).__name__}"
            )
        super()._merge(message, name, value)

    @classmethod
    def _check(cls, message: Any) -> None:
        for device, limit in message.memory_limit_bytes.items():
            if limit <= 0:
                where = f"[{device!r}]" if device else ""
                raise InvalidOptionError(
                    f"ConfigProto.memory_limit_bytes{where} is {limit}; allowed is 1 and above "
                    "(leave it out for no limit)"
                )


class CallableOptions(MessageBacked):
    """Feeds, fetches, targets and run options of a prepared call."""

    __slots__ = ()
    _message_class = _messages.CallableOptions


_Kind = TypeVar("_Kind", bound=MessageBacked)


def _accept(kind: type[_Kind], value: object, example: str) -> _Kind:
    name = kind.__name__
    if isinstance(value, kind):
        return value
    if same_name(value, name):
        return kind.FromString(value.SerializeToString())  # type: ignore[attr-defined]
    raise TypeError(
        f"expected a {name} (of Stepscope, TensorFlow or TensorBoard), found {_describe(value)}; "
        f"pass {example}"
    )


def _describe(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    text = repr(value)
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return f"{type(value).__name__} {shown}"


def as_run_options(value: object) -> RunOptions | None:
    """What was passed as `options=`, as ours: None, `RunOptions`, or TensorFlow's message."""
    if value is None or type(value) is RunOptions:
        return value
    return _accept(RunOptions, value, "stepscope.RunOptions(trace_level=...)")


def as_config(value: object) -> ConfigProto:
    """What was passed as `config=`, as ours; None gives the default configuration."""
    if value is None:
        return ConfigProto()
    config = _accept(ConfigProto, value, "stepscope.ConfigProto(...)")
    check_enums(config._message())
    return config


def as_debug_options(value: object) -> DebugOptions:
    """Debug options of any of the three kinds, as ours."""
    return _accept(DebugOptions, value, "stepscope.DebugOptions(debug_tensor_watch_opts=[...])")


def run_option_fields() -> list[str]:
    """Dotted names of every option of a run, in the order of the message."""
    return list(leaf_fields(RunOptions.DESCRIPTOR, depth=9, into_lists=True))


def config_fields(depth: int = 2) -> list[str]:
    """Dotted names of the fields of `ConfigProto`, nested messages opened `depth` deep."""
    return list(leaf_fields(ConfigProto.DESCRIPTOR, depth=depth, into_lists=False))
