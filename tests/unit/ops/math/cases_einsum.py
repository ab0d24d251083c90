"""Sums of products over named axes."""

from __future__ import annotations

import numpy as np
from op_cases import Case

CASES: list[Case] = []


def values(*shape, dtype="float32"):
    return (np.arange(int(np.prod(shape))).reshape(shape) % 7 - 2).astype(dtype)


def row(tag, equation, *shapes, dtype="float32", **more):
    CASES.append(Case(f"Einsum-{tag}", ("Einsum",), lambda tf: tf.einsum(
        equation, *(tf.constant(values(*s, dtype=dtype)) for s in shapes)), **more))  # fmt: skip


def fed(tag, equation, shape, fed_shape, *others, **more):
    CASES.append(Case(f"Einsum-{tag}", ("Einsum",), lambda tf: tf.einsum(
        equation, tf.placeholder("float32", shape, name="x"),
        *(tf.constant(values(*s)) for s in others)),
        feeds={"x:0": values(*fed_shape)}, **more))  # fmt: skip


for dtype in ("float32", "float64", "float16", "int32", "int64", "complex64"):
    row(f"matmul-{dtype}", "ij,jk->ik", (2, 3), (3, 4), dtype=dtype)
    row(f"trace-{dtype}", "ii->", (3, 3), dtype=dtype)
for tag, equation, *shapes in (
    ("transpose", "ij->ji", (2, 3)),
    ("same", "ij->ij", (2, 3)),
    ("sum", "ijk->j", (2, 3, 4)),
    ("sum-all", "ij->", (2, 3)),
    ("sum-turned", "ijk->kj", (2, 3, 4)),
    ("diagonal", "ii->i", (3, 3)),
    ("diagonal-in-the-middle", "aabbc->cb", (2, 2, 3, 3, 4)),
    ("partly-summed", "aabbcd->ca", (2, 2, 3, 3, 4, 2)),
    ("implicit", "ji,jk", (2, 3), (2, 4)),
    ("implicit-transpose", "ba", (2, 3)),
    ("spaces", " i j , j k -> k i", (2, 3), (3, 4)),
    ("dot", "i,i->", (3,), (3,)),
    ("outer", "i,jk->kij", (2,), (3, 4)),
    ("batch", "bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("two-inner", "bijk,jkl->bil", (2, 3, 4, 5), (4, 5, 2)),
    ("hadamard", "ij,ij->ij", (2, 3), (2, 3)),
    ("alone-in-one", "abc,cd->ad", (2, 3, 4), (4, 5)),
    ("alone-in-both", "ab,cd->ac", (2, 3), (4, 2)),
    ("diagonal-times", "ii,ij->j", (3, 3), (3, 2)),
    ("attention", "bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
    ("rest", "...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)),
    ("rest-broadcast", "...ij,...jk->...ik", (5, 1, 2, 3), (4, 3, 2)),
    ("rest-in-one", "...ij,jk->...ik", (2, 3, 4), (4, 5)),
    ("rest-is-empty", "...ij,jk->ik", (3, 4), (4, 5)),
    ("rest-moved", "i...j->...ji", (2, 3, 4, 5)),
    ("rest-summed", "i...j->j...", (2, 3, 4, 5)),
    ("rest-kept", "i...,i...->...", (2, 3), (2, 3)),
    ("rest-of-different-ranks", "a...b,b...->...a", (2, 3, 4, 5), (5, 4)),
    ("nothing", "ij,jk->ik", (2, 0), (0, 3)),
    ("three", "ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("three-with-rest", "...ij,jk,kl->...il", (6, 2, 3), (3, 4), (4, 2)),
):  # fmt: skip
    row(tag, equation, *shapes)
# TensorFlow chooses among equally cheap orders in another way.
row("three-batches", "bi,bj,bk->bijk", (2, 3), (2, 4), (2, 5), graph=False)
row("four", "ea,fb,abcd,gc->efgd", (2, 3), (3, 4), (3, 4, 2, 3), (4, 2), graph=False)

fed("unknown-length", "ij,jk->ik", [None, 3], (2, 3), (3, 4))
fed("unknown-rank", "ij,jk->ik", None, (2, 3), (3, 4))
fed("unknown-rank-rest", "...j,jk->...k", None, (2, 2, 3), (3, 4))
fed("unknown-summed", "ijk->ki", [None, None, 2], (3, 2, 2))
fed("unknown-broadcast", "...ij,...jk->...ik", None, (3, 1, 2, 2), (4, 2, 3))
CASES += [
    Case(
        "Einsum-named",
        ("Einsum",),
        lambda tf: tf.einsum("ij->j", tf.constant(values(2, 3)), name="summed"),
    ),
    Case(
        "Einsum-repeated-in-the-output",
        ("Einsum",),
        lambda tf: tf.raw_ops.Einsum(inputs=[tf.constant(values(3))], equation="i->ii"),
    ),
]

row("length-clash", "ij,jk->ik", (2, 3), (4, 5), fails="build", match="3 and 4")
row("one-is-no-broadcast", "ij,jk->ik", (2, 1), (4, 5), fails="build", match="1 and 4")
row("rest-clash", "i...,i...->...", (2, 3), (2, 4), fails="build", match="3")
row("rest-not-in-the-output", "...ij->ij", (2, 3, 4), fails="build", match="ellipsis")
row("rank", "ijk->i", (2, 3), fails="build", match="rank 3 but is rank 2")
row("dot-alone", "i.j->i", (2, 3), fails="build", match="incorrect format")
row("label-from-nowhere", "ij->k", (2, 3), fails="build", match="label k not present")
row("label-twice", "ij->ii", (2, 3), fails="build", match="more than once")
row("too-few", "ij,j->i", (2, 3), fails="build", match="expecting 2")
fed("length-clash-fed", "ij,jk->ik", None, (2, 3), (4, 5), fails="run", match="3")
fed("diagonal-clash-fed", "ii->i", None, (2, 3), fails="run", match="2")
fed("rank-fed", "ij->i", None, (2, 3, 4), fails="run", match="rank 2")
fed("rest-fed", "...i->i", None, (2, 3), fails="run", match="ellipsis")
