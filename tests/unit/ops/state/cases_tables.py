"""Lookup tables: what keys give, and what tables refuse.

Tables that are filled once get a name of their own each time they are built (there as here), so
the nodes are not compared attribute by attribute.
"""

import functools
import tempfile
from pathlib import Path

import numpy as np
from op_cases import OURS, Case

HASH, IMPORT, FIND = "HashTableV2", "LookupTableImportV2", "LookupTableFindV2"


@functools.cache
def text_file(content):
    path = Path(tempfile.mkdtemp()) / "vocabulary.txt"
    path.write_bytes(content)
    return str(path)


LINES = b"one\t1\t0.5\r\ntwo\t2\t1.5\nthree\t3\t-2.5"
WORDS = b"the\nquick brown\nfox\n"


def lookup_ops(tf):
    """What `tf.contrib.lookup` had."""
    if tf is OURS:
        from stepscope.tf1.contrib import lookup

        return lookup
    from tensorflow.python.ops import lookup_ops

    return lookup_ops


def pairs(tf, keys, values, **types):
    return tf.lookup.KeyValueTensorInitializer(keys, values, **types)


def after(tf, first, build):
    """The outputs of what `build` gives, once `first` has run."""
    with tf.control_dependencies([first]):
        return build()


def asked(tf, table, *keys):
    """What a table has, once it is filled."""
    return after(tf, table.initializer, lambda: [*map(table.lookup, keys), table.size()])


def static(keys, values, default, found, **types):
    def build(tf):
        initializer = pairs(tf, keys, values, **types)
        table = tf.lookup.StaticHashTable(initializer, default)
        dtype = initializer.key_dtype
        return asked(tf, table, tf.constant(found, dtype), tf.constant([found], dtype),
                     tf.constant(found[0], dtype))  # fmt: skip

    return build


def sparse(tf):
    table = tf.lookup.StaticHashTable(pairs(tf, ["a", "b"], [1, 2]), -1)
    keys = tf.SparseTensor([[0, 1], [2, 0]], tf.constant(["b", "z"]), [3, 2])
    found = after(tf, table.initializer, lambda: table.lookup(keys))
    return [found.indices, found.values, found.dense_shape]


def exported(tf):
    table = tf.lookup.StaticHashTable(pairs(tf, np.int64([3, 5, 9]), [1, 2, 4]), -1)
    keys, values = after(tf, table.initializer, table.export)
    return [tf.reduce_sum(keys), tf.reduce_sum(values), tf.size(keys),
            tf.reduce_sum(keys * tf.cast(values, tf.int64))]  # fmt: skip


def fed(tf):
    table = tf.lookup.StaticHashTable(pairs(tf, ["a", "b"], [1.5, 2.5]), 0.5)
    keys = tf.placeholder(tf.string, [None, 2], "x")
    return after(tf, table.initializer, lambda: table.lookup(keys))


def twice(tf):
    table = tf.lookup.StaticHashTable(pairs(tf, ["a", "b", "a"], [1, 2, 1]), -1)
    again = after(tf, table.initializer, lambda: tf.raw_ops.LookupTableImportV2(
        table_handle=table.resource_handle, keys=["b", "a"], values=[2, 1]))  # fmt: skip
    return after(tf, again, lambda: [table.lookup(tf.constant(["a", "c"])), table.size()])


def from_file(content, *columns, **options):
    def build(tf):
        columns_and_types = [getattr(tf, c) if isinstance(c, str) else c for c in columns]
        initializer = tf.lookup.TextFileInitializer(
            text_file(content), *columns_and_types, **options
        )
        default = "?" if initializer.value_dtype == tf.string else -1
        table = tf.lookup.StaticHashTable(initializer, default)
        keys = {tf.string: ["two", "three", "1", "one\t1\t0.5", "?"], tf.int64: [0, 1, 2, 3, 99]}
        dtype = initializer.key_dtype
        return asked(tf, table, tf.constant(keys[dtype], dtype))

    return build


def vocabulary(build_table, keys, dtype="string"):
    def build(tf):
        table = build_table(lookup_ops(tf), tf)
        return after(tf, tf.tables_initializer(), lambda: [
            table.lookup(tf.constant(keys, dtype)), table.size()])  # fmt: skip

    return build


def strong(lookup):
    return lookup.StrongHashSpec((11, 22))


def mutable(key_dtype, value_dtype, default, keys, values, found):
    def build(tf):
        table = tf.lookup.experimental.MutableHashTable(key_dtype, value_dtype, default)
        second = [keys[0]], [values[1]]
        gone = tf.constant([keys[2], found[-1]], key_dtype)
        step = table.insert(keys, values)
        step = after(tf, step, lambda: table.insert(*second))
        step = after(tf, step, lambda: table.remove(gone))
        step = after(tf, step, lambda: table.insert(found[-1:], values[2:]))
        return after(tf, step, lambda: [
            table.lookup(found), table.lookup([found[:2]]), table.size()])  # fmt: skip

    return build


def mutable_export(tf):
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, [0.0, 0.0])
    keys, values = after(tf, table.insert([7], [[1.0, 2.0]]), table.export)
    return [keys, values]


def mutable_import(tf):
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    handle, all_new = table.resource_handle, np.int64([8, 9])
    step = table.insert(["a", "b"], [1, 2])
    step = after(tf, step, lambda: tf.raw_ops.LookupTableImportV2(
        table_handle=handle, keys=["b", "c"], values=all_new))  # fmt: skip
    return after(tf, step, lambda: [table.lookup(["a", "b", "c"]), table.size()])


def own_defaults(tf):
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    defaults = np.int64([7, 8, 9])
    return after(tf, table.insert([1, 2], [10, 20]), lambda: table.lookup(
        [1, 5, 6], dynamic_default_values=defaults))  # fmt: skip


def initialized_by_op(tf):
    found = []
    for keys, values in ((["a", "b"], [1, 2]), (np.int64([4]), [0.5])):
        initializer = pairs(tf, keys, values)
        table = tf.lookup.StaticHashTable(initializer, values[0])
        filled = tf.raw_ops.InitializeTableV2(
            table_handle=table.resource_handle, keys=keys, values=values
        )
        found.append(after(tf, filled, lambda table=table, keys=keys: table.lookup(
            tf.constant(keys))))  # fmt: skip
    return found


def case(name, op_types, build, **options):
    return Case(f"tables/{name}", op_types, build, graph=False, **options)


def fails(name, build, match, when="run"):
    return Case(f"tables/{name}", (), build, fails=when, match=match)


def file_fails(name, content, match, *columns, **options):
    columns = columns or ("string", -2, "int64", -1)
    return fails(name, from_file(content, *columns, **options), match)


def unready(tf):
    return tf.lookup.StaticHashTable(pairs(tf, ["a"], [1]), -1).lookup(tf.constant(["a"]))


def unready_export(tf):
    return tf.lookup.StaticHashTable(pairs(tf, ["a"], [1]), -1).export()


def other_entries(tf):
    table = tf.lookup.StaticHashTable(pairs(tf, ["a"], [1]), -1)
    return after(tf, table.initializer, lambda: tf.raw_ops.LookupTableImportV2(
        table_handle=table.resource_handle, keys=["a", "b"], values=[1, 2]))  # fmt: skip


def inserted(tf):
    table = tf.lookup.StaticHashTable(pairs(tf, ["a"], [1]), -1)
    return tf.raw_ops.LookupTableInsertV2(
        table_handle=table.resource_handle, keys=["a"], values=[2]
    )


def too_many_values(tf):
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    return table.insert([1, 2], [1, 2, 3])


CASES = [
    case("words", (HASH, IMPORT, FIND, "LookupTableSizeV2"),
         static(["a", "b", ""], [1, 2, 3], -1, ["b", "", "z"])),
    case("numbers", (HASH,), static(np.int64([5, 2**40]), [0.5, 1.5], -1.0, [2**40, 6])),
    case("floats of ints", (HASH,), static([5, 6], np.float64([0.5, 1.5]), -1.0, [6, 7])),
    case("words of numbers", (HASH,), static(np.int64([0, 1]), ["a", "b\0"], "UNK", [1, 0, 2])),
    case("truth of words", (HASH,), static(["a", "b"], [True, True], False, ["a", "c"])),
    case("with types", (HASH,), static([5, 6], [7, 8], 0, [6, 7], key_dtype="int64",
                                       value_dtype="int64")),
    case("sparse keys", (FIND,), sparse),
    case("exported", ("LookupTableExportV2",), exported),
    case("fed", (FIND,), fed, feeds={"x:0": np.array([[b"a", b"z"], [b"b", b"a"]], object)}),
    case("filled twice", (IMPORT,), twice),
    case("initialized by an op", ("InitializeTableV2",), initialized_by_op),
    case("lines", ("InitializeTableFromTextFileV2",), from_file(LINES, "string", -2, "int64", -1)),
    case("columns", ("InitializeTableFromTextFileV2",), from_file(LINES, "string", 0, "int64", 1)),
    case("columns of floats", ("InitializeTableFromTextFileV2",),
         from_file(LINES, "int64", 1, "float32", 2)),
    case("columns of doubles", ("InitializeTableFromTextFileV2",),
         from_file(LINES, "string", 0, "float64", 2, value_index_offset=3)),
    case("small numbers in a file", (), from_file(LINES, "string", 0, "int32", 1,
                                                  value_index_offset=4)),
    case("lines by number", (), from_file(LINES, "int64", -1, "string", 0)),
    case("the first lines", (), from_file(LINES, "string", 0, "int64", -1, vocab_size=2)),
    case("another delimiter", (), from_file(b"one 1\ntwo 2", "string", 0, "int64", 1,
                                            delimiter=" ")),
    case("lines from ten on", (), from_file(LINES, "string", 0, "int64", -1,
                                            value_index_offset=10)),
    case("list", (HASH,), vocabulary(lambda lookup, _tf: lookup.index_table_from_tensor(
        ["x", "y"]), ["y", "x", "z"])),
    case("list with buckets", ("StringToHashBucketFast",),
         vocabulary(lambda lookup, _tf: lookup.index_table_from_tensor(
             ["x", "y"], num_oov_buckets=5), [["y", "x"], ["q", "w"]])),
    case("list with strong buckets", ("StringToHashBucketStrong",),
         vocabulary(lambda lookup, _tf: lookup.index_table_from_tensor(
             ["x", "y"], num_oov_buckets=50, hasher_spec=strong(lookup), name="named"),
             ["y", "q", "w", "e"])),
    case("list with a default", (), vocabulary(lambda lookup, _tf: lookup.index_table_from_tensor(
        ["x", "y"], default_value=0), ["y", "q"])),
    case("list of numbers", ("AsString",), vocabulary(
        lambda lookup, tf: lookup.index_table_from_tensor([10, 20], 7, dtype=tf.int32),
        [10, 20, 30, 40], "int32")),
    case("list of long numbers", (), vocabulary(
        lambda lookup, tf: lookup.index_table_from_tensor(np.int64([10, 20]), dtype=tf.int64),
        [10, 30], "int64")),
    case("file", (), vocabulary(lambda lookup, _tf: lookup.index_table_from_file(
        text_file(WORDS), num_oov_buckets=9), ["the", "quick brown", "lazy"])),
    case("file of so many", (), vocabulary(lambda lookup, _tf: lookup.index_table_from_file(
        text_file(WORDS), vocab_size=2), ["the", "quick brown", "fox"])),
    case("list back", (), vocabulary(lambda lookup, _tf: lookup.index_to_string_table_from_tensor(
        ["x", "y"], default_value="?"), [1, 0, 5], "int64")),
    case("file back", (), vocabulary(lambda lookup, _tf: lookup.index_to_string_table_from_file(
        text_file(WORDS)), [1, 2, 3], "int64")),
    case("buckets alone", (), vocabulary(lambda lookup, _tf: lookup.IdTableWithHashBuckets(
        None, 10), ["a", "b", "c"])),
    case("vocabulary", (), vocabulary(lambda _lookup, tf: tf.lookup.StaticVocabularyTable(
        pairs(tf, ["x", "y"], np.int64([0, 1])), 3), ["y", "q", "w"])),
    case("vocabulary of numbers", (), vocabulary(
        lambda _lookup, tf: tf.lookup.StaticVocabularyTable(
            pairs(tf, np.int64([5, 6]), np.int64([0, 1])), 3, lookup_key_dtype=tf.int32),
        [5, 7, 8], "int32")),
    Case("tables/nothing to fill", ("NoOp",), lambda tf: tf.tables_initializer()),
    case("that changes", ("MutableHashTableV2", "LookupTableInsertV2", "LookupTableRemoveV2"),
         mutable("string", "int64", -1, ["a", "b", "c"], [1, 2, 3], ["a", "b", "c", "d"])),
    case("of numbers that changes", ("MutableHashTableV2",),
         mutable("int64", "float32", 0.5, [1, 2, 3], [1.0, 2.0, 3.0], [1, 2, 3, 4])),
    case("of vectors that changes", ("MutableHashTableOfTensorsV2",),
         mutable("int64", "float32", [0.0, 1.0], [1, 2, 3], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
                 [1, 2, 3, 4])),
    case("of words that changes", ("MutableHashTableOfTensorsV2",),
         mutable("int64", "string", ["?", "!"], [1, 2, 3],
                 [["1", "2"], ["3", "4"], ["5", "6"]], [1, 2, 3, 4])),
    case("changed ones exported", ("LookupTableExportV2",), mutable_export),
    case("all new", (IMPORT,), mutable_import),
    case("a default for each", (FIND,), own_defaults),
    fails("not filled", unready, "Table not initialized."),
    fails("not filled to export", unready_export, "HashTable is not initialized."),
    fails("two values of a key", static(["a", "a"], [1, 2], -1, ["a"]),
          "Key a has 1 and trying to add value 2"),
    fails("other entries", other_entries, "already initialized with different data"),
    fails("insertion into a static one", inserted, "Insert not supported"),
    fails("too many values", too_many_values, "Expected shape [2] for value, got [3]"),
    fails("lengths that differ", static(["a", "b"], [1, 2, 3], -1, ["a"]), "2 and 3", "build"),
    fails("a default of a shape", static(["a"], [1], [-1], ["a"]), "", "build"),
    fails("keys of another type", lambda tf: tf.lookup.StaticHashTable(
        pairs(tf, ["a"], [1]), -1).lookup(tf.constant([1])), "Dtype of argument `keys`", "build"),
    fails("no buckets", lambda tf: tf.lookup.StaticVocabularyTable(
        pairs(tf, ["a"], np.int64([1])), 0), "num_oov_buckets", "build"),
    fails("no such column kind", lambda tf: tf.lookup.TextFileInitializer(
        "f", tf.string, -1, tf.int64, 0), "must be int64", "build"),
    file_fails("too few lines", LINES, "expected 9 but got 3", vocab_size=9),
    file_fails("too few columns", LINES, "expected at least 6 got 3", "string", 0, "int64", 5),
    file_fails("a word for a number", LINES, "Field one in line 0 is not a valid int64.",
               "string", 1, "int64", 0),
    file_fails("a long delimiter", LINES, "delimiter should be only 1 char", delimiter="ab"),
    file_fails("an empty line", b"a\r\nb\n\nc\n", "empty line found at position 6."),
    file_fails("an empty file", b"", "vocabulary.txt"),
    file_fails("a line twice", b"a\nb\na\n", "Key a has 0 and trying to add value 2"),
    fails("no such file", vocabulary(lambda lookup, _tf: lookup.index_table_from_file(
        "/nowhere/words.txt"), ["a"]), "/nowhere/words.txt"),
]  # fmt: skip
