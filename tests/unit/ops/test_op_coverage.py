"""The op tables try every op type with several dtypes and shapes, and every gradient; the page."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
from op_coverage import Covered, coverage, has_gradient, public_op_types

from stepscope.graph.registry import OpType

PAGE = Path(__file__).parents[3] / "docs" / "make_ops_page.py"
HANDLES = (
    "FIFOQueue", "HashTable", "InitializeTable", "LookupTable", "MutableHashTable",
    "PaddingFIFOQueue", "PriorityQueue", "Queue", "RandomShuffleQueue", "Reader", "Stack",
    "TensorArray",
)  # fmt: skip
"""Op types of containers: tensors go in and come out as they are, whatever type and shape."""

_OF_DATASETS = re.compile(r"Dataset(V\d)?$|^MakeIterator$|Iterator")

ONE_DTYPE = {
    "AdjustContrastv2": "float32 alone: TensorFlow has no other kernel on CPUs",
    "AdjustHue": "float32 alone: TensorFlow has no other kernel on CPUs",
    "AdjustSaturation": "float32 alone: TensorFlow has no other kernel on CPUs",
    **dict.fromkeys(
        ("AvgPool3D", "AvgPool3DGrad", "MaxPool3D", "MaxPool3DGrad", "MaxPool3DGradGrad"),
        "float32 alone: TensorFlow has no other kernel on CPUs but for bfloat16",
    ),
    "CollectiveReduce": "can be built here, not run",
    "CollectiveReduceV2": "can be built here, not run",
    "ConcatOffset": "int32 in the rows: what TensorFlow's own gradients make",
    "FusedBatchNorm": "float32 alone",
    "FusedBatchNormGrad": "float32 alone",
    "ResourceCountUpTo": "int32 in the rows; the count is the same as CountUpTo's",
}
ONE_SHAPE = {
    "CollectiveReduce": "can be built here, not run",
    "CollectiveReduceV2": "can be built here, not run",
    "ConcatOffset": "one set of shapes: the offsets follow from it",
    "CountUpTo": "scalars alone",
    "ParseTensor": "scalars alone",
    "PrintV2": "a line of text",
    "ResourceCountUpTo": "scalars alone",
    "ReadFile": "scalars alone",
    "ShardedFilename": "scalars alone",
    "VarIsInitializedOp": "a handle in, a truth value out",
    "WriteFile": "scalars alone",
    "VariableShape": "a handle in; our rule does not know the shape behind it",
}


@pytest.fixture(scope="module")
def covered() -> dict[str, Covered]:
    return coverage()


def looked_at() -> list[OpType]:
    """All but containers, and reference forms of control flow (the same kernels as without Ref)."""
    types = public_op_types()
    names = {t.name for t in types}
    return [
        t
        for t in types
        if not t.name.startswith(HANDLES)
        and not _OF_DATASETS.search(t.name)
        and t.name.removeprefix("Ref") not in names - {t.name}
    ]


def test_several_dtypes(covered: Any) -> None:
    generic = [t for t in looked_at() if any("type" in a.kind for a in t.attrs.values())]
    few = {t.name for t in generic if len(covered[t.name].signatures) < 2}
    assert few == set(ONE_DTYPE), "add rows with another dtype, or say why one is enough"


def test_several_shapes(covered: Any) -> None:
    taking = [t for t in looked_at() if t.inputs]
    few = {t.name for t in taking if len(covered[t.name].shapes) < 2}
    assert few == set(ONE_SHAPE), "add rows with another shape, or say why one is enough"


def test_gradients_of_several_dtypes_or_shapes(covered: Any) -> None:
    with_gradient = [t for t in looked_at() if has_gradient(t)]
    few = {t.name for t in with_gradient if len(covered[t.name].backward) < 2}
    assert few == set(), "add rows with floating-point inputs"


def test_every_gradient_has_a_row(covered: Any) -> None:
    with_gradient = {t.name for t in public_op_types() if has_gradient(t)}
    assert {n for n in with_gradient if not covered[n].backward} == set()


def test_the_page_of_op_types_and_names_is_as_the_code_says() -> None:
    spec = importlib.util.spec_from_file_location("make_ops_page", PAGE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not (difference := module.stale()), f"`make docs` writes it again:\n{difference}"
