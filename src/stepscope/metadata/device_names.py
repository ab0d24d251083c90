"""Device names as people write them: "/cpu:0", "CPU:0" and "/device:CPU:0" mean the same device."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["device_parts", "is_that_device", "named_device"]


def device_parts(device: str) -> dict[str, str]:
    """A name's parts ("job", "task", "device", ...), without what it leaves open."""
    parts = {}
    for piece in device.strip("/").split("/"):
        key, _, value = piece.partition(":")
        if key == "device":
            value = value.upper()
        elif key.lower() in ("cpu", "gpu", "tpu"):
            key, value = "device", f"{key.upper()}:{value or '0'}"
        if value and value != "*":
            parts[key] = value.removesuffix(":*")
    kind = parts.get("device", "")
    if kind and ":" not in kind:
        parts["device"] = f"{kind}:0"
    return parts


def is_that_device(asked: str, found: str) -> bool:
    """Whether a device is one that was asked for; what the request leaves open may be anything."""
    wanted, got = device_parts(asked), device_parts(found)
    return all(got.get(part, value) == value for part, value in wanted.items())


def named_device(device: str | None, known: Iterable[str]) -> str | None:
    """The recorded device that a name means; the name itself where none or several fit.

    None and "" mean all of them.
    """
    if device is not None and not isinstance(device, str):
        raise TypeError(f"a device is given by its name, such as '/cpu:0', not {device!r}")
    if not device:
        return None
    names = list(dict.fromkeys(known))
    if device in names or not device_parts(device):
        return device
    fitting = [name for name in names if is_that_device(device, name)]
    return fitting[0] if len(fitting) == 1 else device
