"""MNIST's files, and synthetic digits where there are none."""

import gzip
import struct

import numpy as np
import pytest

from stepscope.errors import StepscopeError
from stepscope.programs import mnist

IMAGES = np.random.default_rng(1).integers(0, 256, (30, 28, 28), dtype=np.uint8)
LABELS = np.arange(30, dtype=np.uint8) % 10


def write(path, array, compressed=True, cut=0):
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    data = (head + array.tobytes())[: -cut or None]
    path.write_bytes(gzip.compress(data) if compressed else data)


@pytest.fixture
def files(tmp_path):
    write(tmp_path / "train-images-idx3-ubyte.gz", IMAGES[:20])
    write(tmp_path / "train-labels-idx1-ubyte.gz", LABELS[:20])
    write(tmp_path / "t10k-images-idx3-ubyte", IMAGES[20:], compressed=False)
    write(tmp_path / "t10k-labels-idx1-ubyte.gz", LABELS[20:])
    return tmp_path


def test_files(files):
    data = mnist.read_data_sets(files, validation_size=5, one_hot=True)
    assert [part.num_examples for part in data] == [15, 5, 10]
    assert data.train.images.dtype == np.float32
    np.testing.assert_allclose(data.train.images, IMAGES[5:20].reshape(15, 784) / 255, rtol=1e-6)
    np.testing.assert_array_equal(data.validation.labels.argmax(1), LABELS[:5])
    assert data.test.labels.shape == (10, 10)
    raw = mnist.read_data_sets(files, validation_size=0, dtype=np.uint8, reshape=False)
    np.testing.assert_array_equal(raw.test.images[..., 0], IMAGES[20:])
    np.testing.assert_array_equal(raw.test.labels, LABELS[20:])


def test_batches_go_round(files):
    train = mnist.read_data_sets(files, validation_size=5).train
    images = train.images
    seen = [train.next_batch(4, shuffle=False) for _ in range(4)]
    assert train.epochs_completed == 1
    np.testing.assert_array_equal(np.concatenate([x for x, _ in seen])[:15], images)
    np.testing.assert_array_equal(seen[-1][0][-1], images[0])
    with pytest.raises(ValueError, match="batch_size is 16; there are 15 examples"):
        train.next_batch(16)


def test_shuffled_batches_hold_every_example_once(files):
    def labels(**seed):
        train = mnist.read_data_sets(files, validation_size=0, **seed).train
        found = [train.next_batch(5)[1] for _ in range(4)]
        return np.concatenate(found).tolist()

    assert sorted(labels()) == sorted(LABELS[:20].tolist())
    assert labels(seed=1) == labels(seed=1) != labels(seed=2)
    np.random.seed(3)
    first = labels()
    np.random.seed(3)
    assert labels() == first


def test_files_that_are_missing_or_wrong(files):
    write(files / "train-labels-idx1-ubyte.gz", LABELS[:20], cut=3)
    with pytest.raises(StepscopeError, match="damaged: 17 bytes of data, 20 expected"):
        mnist.read_data_sets(files)
    write(files / "train-labels-idx1-ubyte.gz", IMAGES[:20])
    with pytest.raises(ValueError, match="Invalid magic number 2051 in MNIST file"):
        mnist.read_data_sets(files)
    (files / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(StepscopeError, match=r"but not train-labels-idx1-ubyte\.gz"):
        mnist.read_data_sets(files)


def test_validation_size(files):
    with pytest.raises(ValueError, match="Validation size should be between 0 and 20"):
        mnist.read_data_sets(files, validation_size=21)


def test_synthetic_digits(tmp_path, said):
    data = mnist.read_data_sets(tmp_path, one_hot=True)
    assert said == [
        (
            "WARNING",
            f"There are no MNIST files in {tmp_path}: these are synthetic digits, not MNIST.",
        )
    ]
    again = mnist.read_data_sets(tmp_path, fake_data=True, one_hot=True)
    assert len(said) == 1
    np.testing.assert_array_equal(data.train.images, again.train.images)
    assert 0 <= data.test.images.min() < data.test.images.max() <= 1
    # Digits that a straight line through the pixels can tell apart, far better than chance.
    x, y = data.train.images, data.train.labels - 0.1
    weights = np.linalg.solve(x.T @ x + np.eye(784, dtype=np.float32), x.T @ y)
    right = (data.test.images @ weights).argmax(1) == data.test.labels.argmax(1)
    assert right.mean() > 0.5
