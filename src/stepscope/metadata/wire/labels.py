"""Timeline labels: the text in which TensorFlow's step stats tell a node's op type and inputs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["UNKNOWN_OP", "make_label", "parse_label"]

UNKNOWN_OP = "unknown"
"""The op type of a row that does not tell it, as TensorFlow's timeline says it."""

_RECV = "RecvTensor"
# "[cpu 0.1MB 0.1MB] name = Op(a, ^b)"; the name may itself hold " = ", the op may not.
_STANDARD = re.compile(r".* = ([^\s()=]+)\((.*)\)\s*\Z", re.DOTALL)
# "name:Op regs:17 shm:0": what device tracers write.
_KERNEL = re.compile(r"[^\s:]+:([A-Za-z_]\w*)(?=\s|:|\Z)")


def make_label(name: str, op: str, inputs: Sequence[str] = ()) -> str:
    """The label of a node: "c = Add(a, b)"."""
    return f"{name} = {op}({', '.join(inputs)})"


def parse_label(node_name: str, label: str) -> tuple[str, list[str]]:
    """Op type and input names of a row; `UNKNOWN_OP` and none where the label is silent.

    Rows of a transfer between tasks ("[1.0MB] edge_4 from ... to ...") are of type RecvTensor.
    """
    # Almost every label is "name = Op(a, b)", which plain cuts tell faster than the pattern.
    _, equals, call = label.rpartition(" = ")
    op, bracket, inputs = call.partition("(")
    if equals and bracket and inputs[-1:] == ")" and op.isidentifier():
        return op, inputs[:-1].split(", ") if len(inputs) > 1 else []
    match = _STANDARD.match(label)
    if match is not None:
        inputs = match.group(2)
        return match.group(1), inputs.split(", ") if inputs else []
    if node_name == _RECV:
        return _RECV, []
    match = _KERNEL.match(label)
    if match is not None:
        return match.group(1), []
    return UNKNOWN_OP, []
