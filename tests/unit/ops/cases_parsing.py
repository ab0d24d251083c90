"""Example messages and strings of numbers as tensors."""

import numpy as np
from op_cases import Case

from stepscope.metadata.wire.example_messages import (
    BytesList,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)


def ints(*values):
    return Feature(int64_list=Int64List(value=values))


def floats(*values):
    return Feature(float_list=FloatList(value=values))


def texts(*values):
    return Feature(bytes_list=BytesList(value=values))


def example(**features):
    return Example(features=Features(feature=features)).SerializeToString()


TWO = [
    example(n=ints(7), x=floats(1.5, -2.0), words=texts(b"a", b"b"), steps=ints(1, 2, 3)),
    example(n=ints(-1), x=floats(0.25, 3.0), words=texts(), steps=ints(4)),
]


def features(tf):
    return {
        "n": tf.FixedLenFeature([], tf.int64),
        "x": tf.FixedLenFeature([2], tf.float32),
        "gone": tf.FixedLenFeature([2], tf.float32, default_value=[5.0, 6.0]),
        "words": tf.VarLenFeature(tf.string),
        "steps": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    }


def parts(found):
    """The tensors of a dict of tensors and sparse tensors, by key."""
    listed = []
    for key in sorted(found):
        value = found[key]
        sparse = hasattr(value, "dense_shape")
        listed += [value.indices, value.values, value.dense_shape] if sparse else [value]
    return listed


def parsed(tf):
    return parts(tf.parse_example(tf.constant(TWO), features(tf)))


def parsed_one(tf):
    return parts(tf.parse_single_example(tf.constant(TWO[0]), features(tf)))


def parsed_fed(tf):
    return parts(tf.parse_single_example(tf.placeholder(tf.string, name="s"), features(tf)))


def padding(tf):
    feature = tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True, default_value=-9)
    return tf.parse_example(TWO, {"steps": feature})["steps"]


def sparse_feature(tf):
    text = example(at=ints(3, 0), weight=floats(1.0, 2.0))
    wanted = {"w": tf.SparseFeature("at", "weight", tf.float32, 5)}
    return parts(tf.parse_example(tf.constant([text, text]), wanted))


def sequence(n, rows, labels):
    lists = {
        "rows": FeatureList(feature=[floats(*row) for row in rows]),
        "labels": FeatureList(feature=[ints(*label) for label in labels]),
    }
    return SequenceExample(
        context=Features(feature={"n": ints(n)}), feature_lists=FeatureLists(feature_list=lists)
    ).SerializeToString()


STEPS = [sequence(2, [[1, 2], [3, 4]], [[1], [2, 3]]), sequence(1, [[5, 6]], [[4]])]


def sequence_features(tf):
    context = {"n": tf.FixedLenFeature([], tf.int64), "tags": tf.VarLenFeature(tf.string)}
    lists = {
        "rows": tf.FixedLenSequenceFeature([2], tf.float32),
        "labels": tf.VarLenFeature(tf.int64),
        "none": tf.FixedLenSequenceFeature([], tf.string, allow_missing=True),
    }
    return context, lists


def sequences(tf):
    context, lists, lengths = tf.io.parse_sequence_example(
        tf.constant(STEPS), *sequence_features(tf)
    )
    return [*parts(context), *parts(lists), *parts(lengths)]


def one_sequence(tf):
    context, lists = tf.parse_single_sequence_example(STEPS[0], *sequence_features(tf))
    return [*parts(context), *parts(lists)]


def needs(text, feature):
    return lambda tf: tf.parse_example(tf.constant([text]), {"a": feature(tf)})["a"]


def fixed(tf):
    return tf.FixedLenFeature([2], tf.float32)


ROWS = ["1,2.5,a,9", '-4,,"b,c",', "7,1e3, d ,11"]
DEFAULTS = [[0], [-1.0], [""], np.array([5], np.int64)]
RAW = np.arange(12, dtype="<i2").tobytes()

CASES = [
    Case("parse/examples", ("ParseExampleV2",), parsed),
    Case("parse/example", ("ParseExampleV2",), parsed_one),
    Case("parse/example of unknown rank", ("ParseExampleV2",), parsed_fed, {"s:0": TWO[1]}),
    Case("parse/no examples", ("ParseExampleV2",),
         lambda tf: parts(tf.parse_example(tf.placeholder(tf.string, [0], name="s"), features(tf))),
         {"s:0": np.zeros([0], object)}),
    Case("parse/named", ("ParseExampleV2",),
         lambda tf: tf.parse_example(
             TWO, {"n": tf.FixedLenFeature([], tf.int64)}, name="here")["n"]),
    # TensorFlow leaves a constant behind when it makes the padding a scalar.
    Case("parse/padding", ("ParseExampleV2",), padding, graph=False),
    Case("parse/sparse feature", ("ParseExampleV2",), sparse_feature),
    Case("parse/sequences", ("ParseSequenceExampleV2",), sequences),
    Case("parse/sequence", ("ParseSequenceExampleV2",), one_sequence),
    Case("parse/context alone", ("ParseSequenceExampleV2",),
         lambda tf: parts(tf.parse_single_sequence_example(
             STEPS[1], {"n": tf.FixedLenFeature([1], tf.int64)})[0])),
    Case("parse/missing", (), needs(example(), fixed), fails="run",
         match="Feature: a (data type: float) is required but could not be found."),
    Case("parse/other type", (), needs(example(a=ints(1, 2)), fixed), fails="run",
         match="Data types don't match."),
    Case("parse/other count", (), needs(example(a=floats(1)), fixed), fails="run",
         match="Number of float values != expected.  values size: 1 but output shape: [2]"),
    Case("parse/not an example", (), needs(b"aaa", fixed), fails="run",
         match="Could not parse example input"),
    Case("parse/no first axis", (),
         needs(b"", lambda tf: tf.FixedLenFeature([None, 2], tf.float32)), fails="build",
         match="First dimension of shape for feature a unknown"),
    Case("parse/may not be missing", (),
         needs(b"", lambda tf: tf.FixedLenSequenceFeature([], tf.float32)), fails="build",
         match="requires allow_missing to be True"),
    Case("decode/csv", ("DecodeCSV",), lambda tf: tf.decode_csv(ROWS, DEFAULTS),
         grad=False),  # TensorFlow has none
    Case("decode/csv matrix", ("DecodeCSV",),
         lambda tf: tf.decode_csv([["1 2", "3 4"]], [[0.0], [0.0]], field_delim=" "),
         grad=False),
    Case("decode/csv chosen", ("DecodeCSV",),
         lambda tf: tf.decode_csv(["1,x,3", "NA,y,4"], [[9], [8]], na_value="NA",
                                  select_cols=[0, 2])),
    Case("decode/csv without quotes", ("DecodeCSV",),
         lambda tf: tf.decode_csv(['"1",2'], [[""], [0]], use_quote_delim=False)),
    Case("decode/csv too few", (), lambda tf: tf.decode_csv(["1"], [[0], [0]]), fails="run",
         match="Expect 2 fields but have 1 in record 0"),
    Case("decode/csv required", (),
         lambda tf: tf.decode_csv([",1"], [tf.constant([], tf.int32), [0]]),
         fails="run", match="Field 0 is required but missing in record 0!"),
    Case("decode/csv text for a number", (), lambda tf: tf.decode_csv(["x"], [[0]]), fails="run",
         match="Field 0 in record 0 is not a valid int32: x"),
    Case("decode/raw", ("DecodeRaw",), lambda tf: tf.decode_raw(RAW, tf.int16)),
    Case("decode/raw rows", ("DecodeRaw",), lambda tf: tf.decode_raw([[RAW], [RAW]], tf.uint8)),
    Case("decode/raw big end first", ("DecodeRaw",),
         lambda tf: tf.decode_raw([RAW], tf.float32, little_endian=False)),
    Case("decode/raw of unequal length", (), lambda tf: tf.decode_raw(["a", "bc"], tf.uint8),
         fails="run", match="element sizes differ"),
    Case("decode/raw of half a number", (), lambda tf: tf.decode_raw("abc", tf.int16), fails="run",
         match="not a multiple of 2"),
    Case("decode/padded", ("DecodePaddedRaw",),
         lambda tf: tf.raw_ops.DecodePaddedRaw(input_bytes=["a", "bcdefg"], fixed_length=4,
                                               out_type=tf.uint8)),
    Case("decode/padded numbers", ("DecodePaddedRaw",),
         lambda tf: tf.raw_ops.DecodePaddedRaw(input_bytes=RAW, fixed_length=8,
                                               out_type=tf.int32)),
    Case("decode/not compressed", ("DecodeCompressed",),
         lambda tf: tf.decode_compressed(["a", "b"])),
    Case("decode/compressed", ("DecodeCompressed",),
         lambda tf: tf.decode_compressed(
             b"x\x9cKLJ\x06\x00\x02M\x01'", compression_type="ZLIB")),
    Case("decode/base 64", ("EncodeBase64", "DecodeBase64"),
         lambda tf: [tf.encode_base64(["a?>", "bc"]), tf.encode_base64("a", pad=True),
                     tf.decode_base64(["YT8-", "YmM"]), tf.decode_base64("YQ==")]),
    Case("decode/not base 64", (), lambda tf: tf.decode_base64("*"), fails="run",
         match="Invalid character found in base64"),
    Case("tensors/there and back", ("SerializeTensor", "ParseTensor"),
         lambda tf: [tf.io.parse_tensor(tf.io.serialize_tensor(x), x.dtype)
                     for x in (tf.constant([[1.0, 2.0]]), tf.constant(["a", "b"]))]),
    Case("tensors/another type", (),
         lambda tf: tf.parse_tensor(tf.io.serialize_tensor([1.0]), tf.int32), fails="run",
         match="Type mismatch between parsed tensor"),
]  # fmt: skip
