"""Device names: parsing, merging and writing `/job:j/replica:0/task:0/device:CPU:1`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

_PART = re.compile(
    r"(?:(job):([^:/]+)|(replica|task):(\d+|\*)|device:(\w+):(\d+|\*)|(cpu|gpu|tpu)(?::(\d+|\*))?)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A device name, whole or partial: a part that is None is not constrained."""

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None

    @classmethod
    def parse(cls, text: str) -> DeviceSpec:
        """Read a device name; ValueError that says what is wrong with it.

        >>> DeviceSpec.parse("/job:worker/cpu")
        DeviceSpec(job='worker', replica=None, task=None, device_type='CPU', device_index=None)
        """
        spec = cls()
        for part in filter(None, text.split("/")):
            match = _PART.fullmatch(part)
            if match is None:
                raise ValueError(
                    f"Unknown part {part!r} in the device name {text!r}; "
                    "write it like '/device:CPU:0' or '/job:worker/task:1/device:CPU:0'."
                )
            job, name, which, number, kind, index, legacy, legacy_index = match.groups()
            if job:
                spec = replace(spec, job=name)
            elif which:
                value = None if number == "*" else int(number)
                if which.lower() == "replica":
                    spec = replace(spec, replica=value)
                else:
                    spec = replace(spec, task=value)
            else:
                if spec.device_type is not None:
                    raise ValueError(f"More than one device is named in {text!r}.")
                raw = index if kind else legacy_index
                spec = replace(
                    spec,
                    device_type=(kind or legacy).upper(),
                    device_index=None if raw in (None, "*") else int(raw),
                )
        return spec

    from_string = parse

    def merged_over(self, outer: DeviceSpec) -> DeviceSpec:
        """This name where it says something, the outer one elsewhere."""
        return DeviceSpec(
            job=self.job if self.job is not None else outer.job,
            replica=self.replica if self.replica is not None else outer.replica,
            task=self.task if self.task is not None else outer.task,
            device_type=self.device_type if self.device_type is not None else outer.device_type,
            device_index=(
                self.device_index if self.device_index is not None else outer.device_index
            ),
        )

    def matches(self, full: DeviceSpec) -> bool:
        """Whether the (full) device satisfies every part named here."""
        return all(
            mine is None or mine == theirs
            for mine, theirs in (
                (self.job, full.job),
                (self.replica, full.replica),
                (self.task, full.task),
                (self.device_type, full.device_type),
                (self.device_index, full.device_index),
            )
        )

    def to_string(self) -> str:
        text = ""
        if self.job is not None:
            text += f"/job:{self.job}"
        if self.replica is not None:
            text += f"/replica:{self.replica}"
        if self.task is not None:
            text += f"/task:{self.task}"
        if self.device_type is not None:
            index = "*" if self.device_index is None else self.device_index
            text += f"/device:{self.device_type}:{index}"
        return text

    def __str__(self) -> str:
        return self.to_string()


def canonical(device: Any) -> str:
    """A device name in its full spelling (`/cpu:0` becomes `/device:CPU:0`); "" for none."""
    if device is None or device == "":
        return ""
    if isinstance(device, DeviceSpec):
        return device.to_string()
    if hasattr(device, "to_string"):
        return str(device.to_string())
    if not isinstance(device, str):
        raise TypeError(f"A device is a name such as '/device:CPU:0', not {device!r}.")
    return DeviceSpec.parse(device).to_string()


def merge(inner: str, outer: str) -> str:
    """The inner device name completed by the outer one."""
    if not inner or not outer:
        return inner or outer
    return DeviceSpec.parse(inner).merged_over(DeviceSpec.parse(outer)).to_string()
