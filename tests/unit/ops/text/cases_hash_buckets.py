"""Strings as numbers: the same buckets, whatever the length of the string."""

import numpy as np
from op_cases import Case

LENGTHS = [*range(36), 48, 63, 64, 65, 66, 100, 127, 128, 129, 200, 1000]
TEXTS = [bytes((7 * i * n + i) % 256 for i in range(n)) for n in LENGTHS]
WORDS = ["", "a", "the", "vocabulary", "Donaudampfschiff", "grüße"]
MANY = 2**62 + 12345


def case(name, op_type, build, **options):
    return Case(f"hash/{name}", (op_type,), build, **options)


def each(name, op_type, function, **attrs):
    yield case(f"{name} of lengths", op_type,
               lambda tf: function(tf)(tf.constant(TEXTS), MANY, **attrs))  # fmt: skip
    yield case(f"{name} of words", op_type,
               lambda tf: [function(tf)(WORDS, 10, name="few", **attrs),
                           function(tf)("scalar", 1000, **attrs),
                           function(tf)(np.array([WORDS[:3], WORDS[3:]]), 7, **attrs)])  # fmt: skip
    yield case(f"{name} fed", op_type,
               lambda tf: function(tf)(tf.placeholder(tf.string, [None], "x"), 100, **attrs),
               feeds={"x:0": np.array([b"a\0", b"", b"a"], object)})  # fmt: skip
    yield case(f"{name} of none", op_type, lambda tf: function(tf)(["a"], 0, **attrs),
               fails="build", match="num_buckets")  # fmt: skip


CASES = [
    *each("fast", "StringToHashBucketFast", lambda tf: tf.strings.to_hash_bucket_fast),
    *each("strong", "StringToHashBucketStrong", lambda tf: tf.strings.to_hash_bucket_strong,
          key=[7, -9]),
    *each("of old", "StringToHashBucket", lambda tf: tf.string_to_hash_bucket),
]  # fmt: skip
