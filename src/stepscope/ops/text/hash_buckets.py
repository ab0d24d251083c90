"""Strings as numbers below a limit, by hash: the same buckets as TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from stepscope.graph.build import apply_op
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, no_gradient, register
from stepscope.ops.signatures import same_shape
from stepscope.ops.text.fingerprints import farm_fingerprint, old_hash, sip_hash

__all__ = [
    "string_to_hash_bucket",
    "string_to_hash_bucket_fast",
    "string_to_hash_bucket_strong",
]

_NS_EACH: Final = 8_000
"""What a short word takes, about."""


def _bucketed(node: KernelNode, number: Callable[[bytes], int]) -> Kernel:
    buckets = node.attr("num_buckets")
    if buckets < 1:
        raise ValueError(f"num_buckets must be at least 1, not {buckets}")

    def call(texts: Any) -> Any:
        array = np.asarray(texts, dtype=object)
        found = (number(text) % buckets for text in array.reshape(-1))
        return np.fromiter(found, np.int64, array.size).reshape(array.shape)

    known = node.input_shapes[0].num_elements()
    return Kernel(call, cost_ns=None if known is None else float(known * _NS_EACH))


def _strong_kernel(node: KernelNode) -> Kernel:
    key = node.attr("key")
    if len(key) != 2:
        raise ValueError(f"The key of a strong hash is two numbers, not {list(key)}")
    return _bucketed(node, lambda text: sip_hash(text, (key[0], key[1])))


for _name, _input, _kernel in (
    ("StringToHashBucketFast", "input", lambda node: _bucketed(node, farm_fingerprint)),
    ("StringToHashBucket", "string_tensor", lambda node: _bucketed(node, old_hash)),
):
    register(
        _name,
        inputs=[f"{_input}: string"],
        outputs=["output: int64"],
        attrs=["num_buckets: int"],
        shape=same_shape,
        kernel=_kernel,
    )
register(
    "StringToHashBucketStrong",
    inputs=["input: string"],
    outputs=["output: int64"],
    attrs=["num_buckets: int", "key: list(int)"],
    shape=same_shape,
    kernel=_strong_kernel,
)
no_gradient("StringToHashBucket", "StringToHashBucketFast", "StringToHashBucketStrong")


def _buckets(op_type: str, source: Any, count: int, name: str | None, **attrs: Any) -> Tensor:
    if not isinstance(count, int | np.integer):
        raise TypeError(f"num_buckets is a number, not {count!r}.")
    if count < 1:
        raise ValueError(f"Attr 'num_buckets' of '{op_type}' must be at least 1, not {count}.")
    return apply_op(op_type, source, num_buckets=int(count), name=name, **attrs).values()[0]


def string_to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """Each string's FarmHash modulo the number of buckets.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.string_to_hash_bucket_fast(["Hello", "TensorFlow"], 3)).tolist()
    [0, 2]
    """
    return _buckets("StringToHashBucketFast", input, num_buckets, name)


def string_to_hash_bucket_strong(
    input: Any, num_buckets: int, key: Sequence[int], name: str | None = None
) -> Tensor:
    """Each string's SipHash by a key of two numbers: nobody without it can aim at a bucket."""
    return _buckets("StringToHashBucketStrong", input, num_buckets, name, key=list(key))


def string_to_hash_bucket(
    string_tensor: Any = None,
    num_buckets: int | None = None,
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """Each string's number as programs of old have it; `string_to_hash_bucket_fast` is for new."""
    source = string_tensor if string_tensor is not None else input
    if source is None or num_buckets is None:
        raise TypeError("string_to_hash_bucket() needs strings and num_buckets.")
    return _buckets("StringToHashBucket", source, num_buckets, name)
