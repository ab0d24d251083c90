"""Record framing, read back by TensorFlow and TensorBoard."""

from __future__ import annotations

import pytest

from stepscope.metadata.wire.checksums import masked_crc
from stepscope.metadata.wire.records import frame

PAYLOADS = [b"", b"a", b"\x00" * 31, bytes(range(256)) * 4096]


def test_the_checksum_of_a_known_input():
    # CRC-32C of "123456789" is 0xE3069283; rotated right by 15 and offset it is this.
    assert masked_crc(b"123456789") == ((0x2507C60D + 0xA282EAD8) & 0xFFFFFFFF)


def test_an_empty_record_is_sixteen_bytes():
    assert len(frame(b"")) == 16


@pytest.mark.tensorflow
def test_tensorflow_reads_and_writes_the_same_records(tf, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_bytes(b"".join(map(frame, PAYLOADS)))
    with tf.io.TFRecordWriter(str(theirs)) as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    assert ours.read_bytes() == theirs.read_bytes()
    assert [r.numpy() for r in tf.data.TFRecordDataset(str(ours))] == PAYLOADS


@pytest.mark.tensorflow
def test_a_flipped_bit_is_noticed(tf, tmp_path):
    record = bytearray(frame(b"payload"))
    record[14] ^= 1
    (tmp_path / "bad").write_bytes(record)
    with pytest.raises(tf.errors.DataLossError):
        list(tf.data.TFRecordDataset(str(tmp_path / "bad")))
