"""tf.data: the nodes that datasets make, and their elements.

`PIPELINES` are datasets as programs make them; `test_datasets.py` takes all of their elements on
both engines. Rows here compare nodes, types, shapes and the first element.
"""

import collections
import functools
import gzip
import tempfile
from pathlib import Path

import numpy as np
from op_cases import Case

Point = collections.namedtuple("Point", "x y")


def slices(tf, count=7):
    return tf.data.Dataset.from_tensor_slices(np.arange(count, dtype=np.int32))


def table(tf):
    rows = np.arange(24, dtype=np.float32).reshape(8, 3)
    return tf.data.Dataset.from_tensor_slices({"x": rows, "y": np.arange(8)})


def ragged(tf):
    return tf.data.Dataset.range(1, 6).map(lambda n: tf.fill([n], n))


def counted(tf, n):
    return tf.data.Dataset.from_tensors(n).repeat(tf.cast(n, tf.int64))


def yielding(*items):
    def generate():
        yield from items

    return generate


def frame(payload):
    from stepscope.metadata.wire.records import frame

    return frame(payload)


@functools.cache
def folder():
    """Files of each kind, gone with the process."""
    made = tempfile.TemporaryDirectory()
    here = Path(made.name)
    for name, payloads in (("a", [b"one", b""]), ("b", [b"two", b"x" * 300])):
        (here / f"{name}.tfrecord").write_bytes(b"".join(map(frame, payloads)))
    (here / "c.tfrecord").write_bytes(gzip.compress(frame(b"pressed") + frame(b"again")))
    (here / "lines.txt").write_bytes(b"first\nsecond\n\nlast without an end")
    (here / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    (here / "pieces").write_bytes(b"hdr" + b"0123456789ab" + b"ft")
    return made


def file_of(name):
    return str(Path(folder().name) / name)


def captured(tf):
    offset = tf.constant(100)
    return slices(tf).map(lambda x: x + offset)


def squares(tf, x):
    with tf.name_scope("squares"):
        return tf.square(x), tf.cast(x, tf.float32) / 2.0


def looped(tf):
    def collatz(x):
        return tf.while_loop(
            lambda n, _steps: tf.greater(n, 1),
            lambda n, steps: (
                tf.cond(tf.equal(n % 2, 0), lambda: n // 2, lambda: 3 * n + 1),
                steps + 1,
            ),
            [x, 0],
        )[1]

    return tf.data.Dataset.from_tensor_slices([1, 2, 3, 6, 7, 27]).map(collatz)


PIPELINES = {
    "slices": slices,
    "slices/dict": table,
    "slices/nested": lambda tf: tf.data.Dataset.from_tensor_slices(
        {"a": [1, 2], "b": ([1.0, 2.0], ["x", "y"])}
    ),
    "slices/named": lambda tf: tf.data.Dataset.from_tensor_slices(Point([1, 2], [3.0, 4.0])),
    "slices/none": lambda tf: tf.data.Dataset.from_tensor_slices(np.zeros((0, 2), np.float32)),
    "tensors": lambda tf: tf.data.Dataset.from_tensors(([1, 2], "text")),
    "range": lambda tf: tf.data.Dataset.range(2, 10, 3),
    "range/down": lambda tf: tf.data.Dataset.range(5, 0, -2),
    "range/none": lambda tf: tf.data.Dataset.range(0),
    "map": lambda tf: slices(tf).map(lambda x: squares(tf, x)),
    "map/dict": lambda tf: table(tf).map(lambda e: {"sum": tf.reduce_sum(e["x"]), **e}),
    "map/arguments": lambda tf: tf.data.Dataset.zip((slices(tf), slices(tf))).map(
        lambda a, b: a * 10 + b
    ),
    "map/list": lambda tf: slices(tf).map(lambda x: [x, x + 1]),
    "map/constant": lambda tf: slices(tf, 3).map(lambda _x: "same"),
    "map/captured": captured,
    "map/string": lambda tf: slices(tf).map(tf.as_string),
    "map/loop": looped,
    "map/python": lambda tf: slices(tf).map(
        lambda x: tf.py_func(lambda v: np.float64(v) ** 2, [x], tf.float64)
    ),
    "map/parallel": lambda tf: slices(tf, 40).map(lambda x: x * x, num_parallel_calls=3),
    "map/tuned": lambda tf: slices(tf).map(lambda x: -x, num_parallel_calls=-1),
    "filter": lambda tf: slices(tf).filter(lambda x: tf.equal(x % 3, 0)),
    "filter/all": lambda tf: slices(tf).filter(lambda x: x < 0),
    "flat_map": lambda tf: slices(tf).flat_map(lambda x: counted(tf, x)),
    "interleave": lambda tf: slices(tf, 6).interleave(
        lambda x: counted(tf, x), cycle_length=3, block_length=2
    ),
    "interleave/one": lambda tf: slices(tf, 6).interleave(lambda x: counted(tf, x), 1, 1),
    "interleave/wide": lambda tf: slices(tf, 4).interleave(lambda x: counted(tf, x), 9, 1),
    "interleave/parallel": lambda tf: slices(tf, 6).interleave(
        lambda x: tf.data.Dataset.range(3).map(lambda y: 10 * tf.cast(x, tf.int64) + y),
        cycle_length=2, num_parallel_calls=2,
    ),
    "batch": lambda tf: slices(tf).batch(3),
    "batch/dict": lambda tf: table(tf).batch(5),
    "batch/strings": lambda tf: tf.data.Dataset.from_tensor_slices([["a", "b"], ["c", "d"]]).batch(
        2
    ),
    "batch/drop": lambda tf: slices(tf).batch(3, drop_remainder=True),
    "batch/twice": lambda tf: slices(tf, 10).batch(2).batch(2, drop_remainder=True),
    "padded": lambda tf: ragged(tf).padded_batch(2, padded_shapes=[None]),
    "padded/wide": lambda tf: ragged(tf).padded_batch(2, [7], np.int64(-1), drop_remainder=True),
    "padded/pair": lambda tf: tf.data.Dataset.zip((ragged(tf), ragged(tf).map(tf.as_string))).
        padded_batch(3, ([None], [6]), (np.int64(9), "-")),
    "unbatch": lambda tf: table(tf).batch(3).apply(tf.data.experimental.unbatch()),
    "window": lambda tf: slices(tf).window(3, shift=2, stride=2).flat_map(lambda w: w.batch(3)),
    "window/drop": lambda tf: slices(tf).window(2, drop_remainder=True).flat_map(
        lambda w: w.batch(2)
    ),
    "shuffle": lambda tf: slices(tf, 30).shuffle(8, seed=3),
    "shuffle/all": lambda tf: slices(tf, 30).shuffle(100, seed=4),
    "shuffle/one": lambda tf: slices(tf).shuffle(1, seed=4),
    "shuffle/again": lambda tf: slices(tf, 9).shuffle(4, seed=5).repeat(3),
    "shuffle/same": lambda tf: slices(tf, 9).shuffle(
        4, seed=5, reshuffle_each_iteration=False
    ).repeat(2),
    "shuffle/repeated": lambda tf: slices(tf, 9).repeat(2).shuffle(5, seed=1),
    "shuffle/and_repeat": lambda tf: slices(tf, 9).apply(
        tf.data.experimental.shuffle_and_repeat(4, 3, seed=7)
    ),
    "repeat": lambda tf: slices(tf, 3).repeat(3),
    "repeat/none": lambda tf: slices(tf, 3).repeat(0),
    "repeat/endless": lambda tf: slices(tf, 3).repeat().take(8),
    "repeat/nothing": lambda tf: slices(tf, 0).repeat(),
    "take": lambda tf: slices(tf).take(3),
    "take/all": lambda tf: slices(tf).take(-1),
    "skip": lambda tf: slices(tf).skip(5),
    "skip/all": lambda tf: slices(tf).skip(-1),
    "shard": lambda tf: slices(tf).shard(3, 1),
    "zip": lambda tf: tf.data.Dataset.zip((slices(tf), {"b": table(tf)})),
    "concatenate": lambda tf: slices(tf, 3).concatenate(slices(tf, 2)),
    "concatenate/shapes": lambda tf: slices(tf, 3).batch(3).concatenate(slices(tf, 2).batch(2)),
    "enumerate": lambda tf: slices(tf, 3).enumerate(5),
    "prefetch": lambda tf: slices(tf, 40).prefetch(3),
    "prefetch/none": lambda tf: slices(tf).prefetch(0),
    "prefetch/tuned": lambda tf: slices(tf).prefetch(-1),
    "cache": lambda tf: slices(tf).cache().repeat(2),
    "cache/shuffled": lambda tf: slices(tf).shuffle(4, seed=2).cache().repeat(2),
    "map_and_batch": lambda tf: slices(tf).apply(
        tf.data.experimental.map_and_batch(lambda x: x * 2, 3)
    ),
    "ignore_errors": lambda tf: tf.data.Dataset.from_tensor_slices([1.0, 0.0, 2.0])
        .map(lambda x: tf.check_numerics(1.0 / x, "bad"))
        .apply(tf.data.experimental.ignore_errors()),
    "generator": lambda tf: tf.data.Dataset.from_generator(
        yielding(1, 2, 3), tf.int32, tf.TensorShape([])
    ),
    "generator/nested": lambda tf: tf.data.Dataset.from_generator(
        yielding(([1.0, 2.0], {"n": "a"}), ([3.0, 4.0], {"n": "b"})),
        (tf.float32, {"n": tf.string}), (tf.TensorShape([2]), {"n": tf.TensorShape([])}),
    ),
    "generator/arguments": lambda tf: tf.data.Dataset.from_generator(
        lambda n: iter(range(n)), tf.int64, args=(4,)
    ).repeat(2),
    "records": lambda tf: tf.data.TFRecordDataset([file_of("a.tfrecord"), file_of("b.tfrecord")]),
    "records/compressed": lambda tf: tf.data.TFRecordDataset(file_of("c.tfrecord"), "GZIP"),
    "records/parallel": lambda tf: tf.data.TFRecordDataset(
        [file_of("a.tfrecord"), file_of("b.tfrecord")], num_parallel_reads=2
    ),
    "lines": lambda tf: tf.data.TextLineDataset([file_of("lines.txt"), file_of("dos.txt")]).skip(1),
    "pieces": lambda tf: tf.data.FixedLengthRecordDataset(file_of("pieces"), 4, 3, 2),
    "files": lambda tf: tf.data.Dataset.list_files(file_of("*.tfrecord"), shuffle=False),
    "files/shuffled": lambda tf: tf.data.Dataset.list_files(file_of("*"), seed=3),
    "all at once": lambda tf: slices(tf, 50)
        .map(lambda x: (x, tf.cast(x, tf.float32) * 0.5), num_parallel_calls=2)
        .filter(lambda x, _half: tf.not_equal(x % 7, 3))
        .shuffle(10, seed=11).repeat(2).batch(6).prefetch(2),
}  # fmt: skip

OP_TYPES = {
    "slices": ("TensorSliceDataset", "OneShotIterator", "IteratorGetNext"),
    "tensors": ("TensorDataset",),
    "range": ("RangeDataset",),
    "map": ("MapDataset", "IteratorToStringHandle"),
    "map/parallel": ("ParallelMapDatasetV2",),
    "filter": ("FilterDataset",),
    "flat_map": ("FlatMapDataset",),
    "interleave": ("InterleaveDataset",),
    "interleave/parallel": ("ParallelInterleaveDatasetV4",),
    "batch": ("BatchDatasetV2",),
    "padded": ("PaddedBatchDatasetV2",),
    "unbatch": ("UnbatchDataset",),
    "window": ("WindowDataset",),
    "shuffle": ("ShuffleDataset",),
    "shuffle/and_repeat": ("ShuffleAndRepeatDataset",),
    "repeat": ("RepeatDataset",),
    "take": ("TakeDataset",),
    "skip": ("SkipDataset",),
    "shard": ("ShardDataset",),
    "zip": ("ZipDataset",),
    "concatenate": ("ConcatenateDataset",),
    "enumerate": ("RewriteDataset",),
    "prefetch": ("PrefetchDataset",),
    "cache": ("CacheDataset",),
    "map_and_batch": ("MapAndBatchDataset",),
    "ignore_errors": ("IgnoreErrorsDataset",),
    "generator": ("GeneratorDataset",),
    "records": ("TFRecordDataset",),
    "lines": ("TextLineDataset",),
    "pieces": ("FixedLengthRecordDatasetV2",),
    "files": ("MatchingFiles",),
}
EMPTY = ("slices/none", "range/none", "filter/all", "repeat/none", "repeat/nothing", "skip/all")
OWN_GRAPH = {
    # Nodes that a dataset is made of, as TensorFlow's own versions differ in them.
    "generator", "generator/nested", "generator/arguments", "window", "window/drop",
    "records/parallel",
}  # fmt: skip


def leaves(structure):
    if isinstance(structure, dict):
        return [leaf for key in sorted(structure) for leaf in leaves(structure[key])]
    if isinstance(structure, tuple):
        return [leaf for part in structure for leaf in leaves(part)]
    return [structure]


def first_element(build):
    return lambda tf: leaves(tf.data.make_one_shot_iterator(build(tf)).get_next())


CASES = [
    Case(f"data/{name}", OP_TYPES.get(name, ()), first_element(build), grad=False,
         graph=name not in OWN_GRAPH)
    for name, build in PIPELINES.items()
    if name not in EMPTY
]  # fmt: skip


def in_turn(tf):
    """An iterator that is begun in the run that takes from it."""
    it = tf.data.Iterator.from_structure(tf.int32, tf.TensorShape([None]))
    with tf.control_dependencies([it.make_initializer(slices(tf).batch(4))]):
        return it.get_next()


def by_handle(tf):
    it = tf.data.make_one_shot_iterator(slices(tf))
    feedable = tf.data.Iterator.from_string_handle(it.string_handle(), tf.int32, [])
    return feedable.get_next()


def reduced(tf):
    return slices(tf).reduce(0, lambda total, x: total + x)


def reduced_pair(tf):
    return leaves(
        table(tf).reduce(
            (0.0, np.int64(0)),
            lambda state, e: (state[0] + tf.reduce_sum(e["x"]), state[1] + e["y"]),
        )
    )


def taken_sync(tf):
    it = tf.data.make_one_shot_iterator(slices(tf))
    return tf.raw_ops.IteratorGetNextSync(
        iterator=it._iterator_resource, output_types=[tf.int32], output_shapes=[[]]
    )


def with_options(tf):
    return tf.raw_ops.OptionsDataset(
        input_dataset=slices(tf)._variant_tensor, serialized_options=b"",
        output_types=[tf.int32], output_shapes=[[]],
    ).op  # fmt: skip


CASES += [
    Case("data/options", ("OptionsDataset",), with_options, grad=False),
    Case("data/in turn", ("IteratorV2", "MakeIterator", "IteratorGetNext"), in_turn, grad=False),
    Case("data/by handle", ("IteratorFromStringHandleV2",), by_handle, grad=False),
    Case("data/sync", ("IteratorGetNextSync",), taken_sync, grad=False),
    Case("data/reduce", ("ReduceDataset",), reduced, grad=False),
    Case("data/reduce pair", ("ReduceDataset",), reduced_pair, grad=False),
    Case("data/ends", (), first_element(lambda tf: slices(tf, 0)), fails="run",
         match="End of sequence"),
    Case("data/not begun", (),
         lambda tf: tf.data.make_initializable_iterator(slices(tf)).get_next(), fails="run",
         match="the iterator has not been initialized"),
    Case("data/shapes differ", (), first_element(lambda tf: ragged(tf).batch(2)), fails="run",
         match="Cannot batch tensors with different shapes in component 0"),
    Case("data/padding too small", (),
         first_element(lambda tf: ragged(tf).padded_batch(3, [2])), fails="run",
         match="Attempted to pad to a smaller size than the input element"),
    Case("data/error inside", (),
         first_element(lambda tf: slices(tf).map(lambda x: tf.gather([1, 2], x + 5))),
         fails="run", match="{{node"),
    Case("data/no batch", (), first_element(lambda tf: slices(tf).batch(0)), fails="run",
         match="must be greater than zero"),
    Case("data/fed", (), first_element(lambda tf: tf.data.Dataset.from_tensor_slices(
        tf.placeholder(tf.int32, [3]))), fails="build", match="make_initializable_iterator"),
    Case("data/variable", (), first_element(lambda tf: tf.data.Dataset.from_tensors(
        tf.Variable([1], use_resource=True).read_value())), fails="build",
         match="make_initializable_iterator"),
    Case("data/scalar", (), lambda tf: tf.data.Dataset.from_tensor_slices(3), fails="build"),
    Case("data/predicate", (), lambda tf: slices(tf).filter(lambda x: x), fails="build",
         match="must be convertible to a scalar boolean tensor"),
    Case("data/types", (), lambda tf: tf.data.Iterator.from_structure(tf.int64).make_initializer(
        slices(tf)), fails="build", match="Expected output types"),
]  # fmt: skip
