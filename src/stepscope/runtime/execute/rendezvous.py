"""Where the partitions of one run meet: a tensor sent on one device is received on another.

The devices of the embedded engine share one memory, so a transfer hands the array over without
copying. The schedule starts a receive only after its send; a receive that finds nothing is a bug
in the plan and says so.
"""

from __future__ import annotations

from typing import Any

from stepscope.errors import InternalError


def rendezvous_key(send_device: str, recv_device: str, tensor_name: str) -> str:
    """The key of one transfer, as TensorFlow writes it."""
    return f"{send_device};0000000000000001;{recv_device};{tensor_name};0:0"


class Rendezvous:
    """The tensors in transit of one run. Single dictionary operations, so safe under threads."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, Any] = {}

    def send(self, key: str, value: Any) -> None:
        self._waiting[key] = value

    def receive(self, key: str) -> Any:
        try:
            return self._waiting.pop(key)
        except KeyError:
            raise InternalError.without_op(f"Nothing was sent under the key {key}.") from None
