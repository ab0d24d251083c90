"""Readers of files, through queues of their names."""

import gzip
import tempfile
from pathlib import Path

import numpy as np
from op_cases import Case

from stepscope.metadata.wire.records import frame

FOLDER = tempfile.TemporaryDirectory()


def file(name, content):
    path = Path(FOLDER.name) / name
    path.write_bytes(content)
    return str(path)


LINES = file("lines.txt", b"head\none\r\ntwo\n\nlast")
RECORDS = file("three.tfrecord", frame(b"first") + frame(b"") + frame(b"\x00third"))
ZIPPED = file("three.gz", gzip.compress(frame(b"zipped") + frame(b"records")))
PIECES = file("pieces.bin", b"H" + b"abcdefgh" + b"FF")


def read(make, path, times=2):
    """Some records one after the other, then the counts."""

    def build(tf):
        queue = tf.FIFOQueue(9, tf.string, [[]])
        with tf.control_dependencies([queue.enqueue_many([[path, LINES]])]):
            reader = make(tf)
        found = []
        for _ in range(times):
            with tf.control_dependencies([*found]):
                found += reader.read(queue)
        with tf.control_dependencies(found):
            counts = [reader.num_records_produced(), reader.num_work_units_completed()]
        return [*found, *counts]

    return build


def several(tf):
    queue = tf.FIFOQueue(9, tf.string, [[]])
    with tf.control_dependencies([queue.enqueue(LINES)]):
        reader = tf.TextLineReader(skip_header_lines=1)
    first = reader.read_up_to(queue, 2)
    with tf.control_dependencies(first):
        return [*first, *reader.read_up_to(queue, 9)]


def begun_anew(tf):
    queue = tf.FIFOQueue(9, tf.string, [[]])
    with tf.control_dependencies([queue.enqueue_many([[LINES, RECORDS]])]):
        reader = tf.WholeFileReader()
    first = reader.read(queue)
    with tf.control_dependencies(first), tf.control_dependencies([reader.reset()]):
        return [*first, reader.num_records_produced()]


def out_of_files(tf):
    queue = tf.FIFOQueue(9, tf.string, [[]])
    with tf.control_dependencies([queue.close()]):
        return tf.TextLineReader().read(queue)


def padded(tf):
    queue = tf.PaddingFIFOQueue(9, [tf.int32, tf.string], [[None, 2], [None]])
    rows = [[[1, 2]], [[3, 4], [5, 6], [7, 8]]], [["a", "b"], []]
    ready = []
    for numbers, words in zip(*rows, strict=True):
        with tf.control_dependencies(ready):
            ready = [queue.enqueue([numbers, tf.constant(words, tf.string)])]
    with tf.control_dependencies(ready):
        return queue.dequeue_many(2)


def padded_floats(tf):
    queue = tf.PaddingFIFOQueue(9, tf.float32, [[None]])
    with tf.control_dependencies([queue.enqueue_many([[[1.0, 2.0], [3.0, 4.0]]])]):
        closed = queue.close()
    with tf.control_dependencies([closed]):
        return queue.dequeue_up_to(5)


def by_priority(tf):
    queue = tf.PriorityQueue(9, [tf.string, tf.float32], [[], [2]])
    keys = np.array([3, -1, 2], np.int64)
    rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    with tf.control_dependencies([queue.enqueue_many([keys, ["c", "a", "b"], rows])]):
        return queue.dequeue_many(3)


CASES = [
    Case("reader/whole", ("WholeFileReaderV2", "ReaderReadV2"),
         read(lambda tf: tf.WholeFileReader(), RECORDS)),
    Case("reader/identity", ("IdentityReaderV2",), read(lambda tf: tf.IdentityReader(), "any")),
    Case("reader/lines", ("TextLineReaderV2", "ReaderNumRecordsProducedV2"),
         read(lambda tf: tf.TextLineReader(skip_header_lines=1, name="here"), LINES, 5)),
    Case("reader/pieces", ("FixedLengthRecordReaderV2",),
         read(lambda tf: tf.FixedLengthRecordReader(4, 1, 2), PIECES)),
    Case("reader/pieces that overlap", ("FixedLengthRecordReaderV2",),
         read(lambda tf: tf.FixedLengthRecordReader(4, 1, 2, hop_bytes=2), PIECES, 3)),
    Case("reader/records", ("TFRecordReaderV2", "ReaderNumWorkUnitsCompletedV2"),
         read(lambda tf: tf.TFRecordReader(), RECORDS, 3)),
    Case("reader/zipped records", ("TFRecordReaderV2",),
         read(lambda tf: _zipped(tf), ZIPPED)),
    Case("reader/several", ("ReaderReadUpToV2",), several),
    Case("reader/begun anew", ("ReaderResetV2",), begun_anew),
    Case("reader/out of files", (), out_of_files, fails="run",
         match="is closed and has insufficient elements (requested 1, current size 0)"),
    Case("reader/no such file", (), read(lambda tf: tf.TextLineReader(), "/no/such/file"),
         fails="run", match="No such file"),
    Case("reader/not records", (), read(lambda tf: tf.TFRecordReader(), LINES), fails="run",
         match="record at 0"),
    Case("queue/padded", ("PaddingFIFOQueueV2",), padded),
    Case("queue/padded floats", ("PaddingFIFOQueueV2",), padded_floats),
    Case("queue/priority", ("PriorityQueueV2",), by_priority),
]  # fmt: skip


def _zipped(tf):
    options = getattr(tf, "python_io", None)
    return tf.TFRecordReader(
        options=options.TFRecordOptions(options.TFRecordCompressionType.GZIP) if options else "GZIP"
    )
