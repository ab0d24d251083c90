"""Stacks of tensors: what TensorFlow's gradients of loops keep from the way there for the way back.

There are no functions for them: graphs with such gradients come from TensorFlow, by import.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.registry import Kernel, KernelNode, register
from stepscope.graph.shapes import TensorShape


class Stack:
    """The tensors of one stack in one run; safe under threads."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._items: list[Any] = []
        self._lock = threading.Lock()
        self.tags: dict[int, list[Any]] = {}
        """By the id of a tensor, what whoever counts memory put there."""

    def push(self, value: Any) -> None:
        with self._lock:
            if 0 <= self._most <= len(self._items):
                raise InvalidArgumentError.without_op(
                    f"Stack[{self._name}] overflowed its max_size ({self._most})"
                )
            self._items.append(value)

    def pop(self) -> Any:
        with self._lock:
            if not self._items:
                raise InvalidArgumentError.without_op(
                    f"Stack[{self._name}] is empty when calling Pop()."
                )
            return self._items.pop()

    def close(self) -> None:
        with self._lock:
            self._items = []


def _make_kernel(node: KernelNode) -> Kernel:
    name = node.attr("stack_name").decode() or node.name
    return Kernel(lambda most: Stack(name, int(np.asarray(most))), opaque=True, cost_ns=1000)


register(
    "StackV2",
    inputs=["max_size: int32"],
    outputs=["handle: resource"],
    attrs=["elem_type: type", "stack_name: string = ''"],
    shape=lambda _c: TensorShape((2,)),
    kernel=_make_kernel,
    stateful=True,
)


def _push(stack: Stack, value: Any) -> Any:
    stack.push(value)
    return value


register(
    "StackPushV2",
    inputs=["handle: resource", "elem: T"],
    outputs=["output: T"],
    attrs=["T: type", "swap_memory: bool = false"],
    shape=lambda c: c.input(1),
    kernel=lambda _node: Kernel(_push, views=(1,), opaque=True, cost_ns=1000),
    stateful=True,
)
register(
    "StackPopV2",
    inputs=["handle: resource"],
    outputs=["elem: elem_type"],
    attrs=["elem_type: type"],
    kernel=lambda _node: Kernel(lambda stack: stack.pop(), opaque=True, cost_ns=1000),
    stateful=True,
)
register(
    "StackCloseV2",
    inputs=["handle: resource"],
    shape=lambda _c: [],
    kernel=lambda _node: Kernel(lambda stack: stack.close(), cost_ns=1000),
    stateful=True,
)
