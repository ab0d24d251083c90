"""Checkpoints: written and read again in one run, so that a row is whole by itself."""

import atexit
import shutil
import tempfile
from pathlib import Path

import numpy as np
from op_cases import Case

PLACE = Path(tempfile.mkdtemp(prefix="stepscope_checkpoints"))
atexit.register(shutil.rmtree, PLACE, ignore_errors=True)
RANDOM = np.random.default_rng(13)
VALUES = {
    "floats": [RANDOM.normal(size=(3, 4)).astype("float32"), np.float64(2.5)],
    "halves": [RANDOM.normal(size=5).astype("float16"), np.zeros((0, 3), "float32")],
    "integers": [np.arange(-3, 3, dtype=t) for t in ("int8", "int16", "int32", "int64")],
    "unsigned": [np.arange(200, 220, dtype=t) for t in ("uint8", "uint16", "uint32", "uint64")],
    "complex": [np.array([1 + 2j, -3j], "complex64"), np.array(2 - 1j, "complex128")],
    "truths": [np.array([[True], [False]])],
    "texts": [np.array([b"", b"a\0b", b"long " * 99], object), np.array(b"one", object)],
}


def saved(tf, values, prefix):
    """The names of the tensors, after they were saved."""
    names = [f"tensor_{i}" for i in range(len(values))]
    slices = [""] * len(names)
    tensors = [tf.constant(v) for v in values]
    save = tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=names, shape_and_slices=slices, tensors=tensors
    )
    return save, names, slices, [t.dtype for t in tensors]


def round_trip(values, name):
    def build(tf):
        prefix = str(PLACE / name)
        save, names, slices, dtypes = saved(tf, values, prefix)
        with tf.control_dependencies([save]):
            return tf.raw_ops.RestoreV2(
                prefix=prefix, tensor_names=names, shape_and_slices=slices, dtypes=dtypes
            )

    return build


def merged(count):
    """Shards in a directory of their own, made one checkpoint, and read."""

    def build(tf):
        prefix = str(PLACE / f"merged{count}")
        parts, saves = [], []
        for shard in range(count):
            part = tf.raw_ops.ShardedFilename(
                basename=f"{prefix}_temp/part", shard=shard, num_shards=count
            )
            saves.append(
                tf.raw_ops.SaveV2(
                    prefix=part, tensor_names=[f"t{shard}"], shape_and_slices=[""],
                    tensors=[tf.constant([1.0 * shard] * (shard + 2))],
                )
            )  # fmt: skip
            parts.append(part)
        with tf.control_dependencies(saves):
            merge = tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=parts if count > 1 else tf.stack(parts),
                destination_prefix=prefix,
            )
        with tf.control_dependencies([merge]):
            return tf.raw_ops.RestoreV2(
                prefix=prefix, tensor_names=[f"t{i}" for i in range(count)],
                shape_and_slices=[""] * count, dtypes=[tf.float32] * count,
            )  # fmt: skip

    return build


def damaged(tf):
    return tf.raw_ops.RestoreV2(
        prefix=str(PLACE / "none"), tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.int32]
    )


def matches(pattern, texts):
    return Case(
        f"regex_full_match/{pattern}-{np.ndim(texts)}",
        ("StaticRegexFullMatch",),
        lambda tf: tf.strings.regex_full_match(texts, pattern),
    )


CASES = [
    *(
        Case(f"save_and_restore/{name}", ("SaveV2", "RestoreV2"), round_trip(values, name))
        for name, values in VALUES.items()
    ),
    *(
        Case(f"merge_checkpoints/{n}", ("MergeV2Checkpoints", "ShardedFilename"), merged(n))
        for n in (1, 3)
    ),
    Case("restore/nothing", ("RestoreV2",), damaged, fails="run", match="Failed to find"),
    matches("^s3://.*", "s3://bucket/model"),
    matches("a|b", ["a", "b", "ab", ""]),
]
