"""What belongs to an op type stands in one file."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import stepscope.ops
from stepscope.graph.registry import OpType, registered

OPS = Path(stepscope.ops.__file__).parent
SHARED = {"signatures.py"}
"""Shape rules that families have in common."""
FROM_A_FACTORY = {
    "DivNoNan": "math/elementwise.py",
    "RealDiv": "math/elementwise.py",
    "SigmoidGrad": "math/unary.py",
}
"""Their kernels are made, of functions that stand with the rest, by a factory in that file."""


def files_of(op_type: OpType) -> set[str]:
    """Where its shape rule, kernel and gradient are written, but for what families share."""
    found = set()
    for part in (op_type.shape, op_type.kernel, op_type.gradient):
        code = getattr(inspect.unwrap(part), "__code__", None) if part is not None else None
        path = Path(code.co_filename) if code is not None else None
        if path is not None and path.is_relative_to(OPS):
            found.add(path.relative_to(OPS).as_posix())
    return found - SHARED


@pytest.mark.parametrize("op_type", list(registered()), ids=lambda op_type: op_type.name)
def test_shape_rule_kernel_and_gradient_are_in_one_file(op_type):
    files = files_of(op_type)
    factory = FROM_A_FACTORY.get(op_type.name)
    assert factory is None or factory in files, "no exception is needed any more"
    assert len(files - {factory}) <= 1
