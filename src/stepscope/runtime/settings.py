"""A session's configuration, checked and in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepscope.errors import InvalidArgumentError
from stepscope.graph import DeviceSpec
from stepscope.runtime.execute.blas_threads import BLAS
from stepscope.runtime.plan.placement import Device


class SessionSettings:
    """What the engine uses of a ConfigProto. InvalidArgumentError names a wrong field."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.cpu_count = _device_count(config)
        self.soft_placement = bool(config.allow_soft_placement)
        self.log_placement = bool(config.log_device_placement)
        self.timeout_ms = int(config.operation_timeout_in_ms)
        graph_options = config.graph_options
        self.build_cost_model = int(graph_options.build_cost_model)
        self.build_cost_model_after = int(graph_options.build_cost_model_after)
        _check_not_negative("graph_options.build_cost_model", self.build_cost_model)
        _check_not_negative("graph_options.build_cost_model_after", self.build_cost_model_after)
        self.disable_partition_graphs = bool(config.experimental.disable_output_partition_graphs)
        self.memory_limits = dict(config.memory_limit_bytes.items())
        for i, pool in enumerate(config.session_inter_op_thread_pool):
            _check_not_negative(f"session_inter_op_thread_pool[{i}].num_threads", pool.num_threads)
        _check_not_negative("intra_op_parallelism_threads", config.intra_op_parallelism_threads)
        if config.intra_op_parallelism_threads:
            BLAS.limit(int(config.intra_op_parallelism_threads))


def limits_by_device(limits: Mapping[str, int], devices: Sequence[Device]) -> dict[str, int]:
    """Each device's limit by its full name; InvalidArgumentError for a device there is none of."""
    found = {d.name: limits[""] for d in devices} if "" in limits else {}
    for wanted, limit in limits.items():
        if not wanted:
            continue
        try:
            spec = DeviceSpec.parse(wanted)
        except ValueError as error:
            raise InvalidArgumentError.without_op(
                f"ConfigProto.memory_limit_bytes: {error}"
            ) from None
        names = [d.name for d in devices if spec.matches(d.spec)]
        if not names:
            raise InvalidArgumentError.without_op(
                f"ConfigProto.memory_limit_bytes names the device {wanted!r}; the session has "
                f"{', '.join(d.name for d in devices)}.",
            )
        found |= dict.fromkeys(names, limit)
    return found


def _device_count(config: Any) -> int:
    for kind, count in config.device_count.items():
        if kind not in ("CPU", "GPU", "TPU"):
            raise InvalidArgumentError.without_op(
                f"ConfigProto.device_count has {kind!r}; the embedded engine has CPU."
            )
        if kind == "CPU" and not 1 <= count <= 256:
            raise InvalidArgumentError.without_op(
                f"ConfigProto.device_count['CPU'] is {count}; allowed are 1 to 256."
            )
    return int(config.device_count["CPU"]) if "CPU" in config.device_count else 1


def _check_not_negative(field: str, value: int) -> None:
    if value < 0:
        raise InvalidArgumentError.without_op(
            f"ConfigProto.{field} is {value}; allowed are 0 and above."
        )
