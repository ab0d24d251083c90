"""Handwritten digits for TensorFlow 1's tutorials: MNIST's files, or synthetic digits without them.

Uses NumPy alone: programs on either engine read their data here. Nothing is ever downloaded.
"""

from __future__ import annotations

import gzip
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import StepscopeError

Array = NDArray[Any]

SIDE: Final = 28
CLASSES: Final = 10
_IMAGES, _LABELS = 2051, 2049
_FILES = {
    "train_images": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}
_SYNTHETIC: Final = (6000, 1000, 500)
"""How many synthetic digits there are to train, to test, and (of the first) to validate with."""

_log = logging.getLogger("tensorflow")


class Datasets(NamedTuple):
    """The three parts of the data."""

    train: DataSet
    validation: DataSet
    test: DataSet


class DataSet:
    """Images and labels, given out in batches."""

    def __init__(
        self,
        images: Array,
        labels: Array,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = np.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        """Images are bytes, `[n, rows, columns, 1]`; as floats they go from 0 to 1.

        With `reshape` each image is one row of `rows * columns` numbers.
        """
        del one_hot
        kind = np.dtype(getattr(dtype, "as_numpy_dtype", dtype))
        if kind not in (np.dtype(np.uint8), np.dtype(np.float32)):
            raise TypeError(f"Invalid image dtype {kind}, expected uint8 or float32")
        if len(images) != len(labels):
            raise ValueError(f"images.shape: {images.shape} labels.shape: {labels.shape}")
        if reshape and images.ndim == 4:
            images = images.reshape(len(images), int(np.prod(images.shape[1:])))
        if kind == np.float32 and images.dtype == np.uint8:
            images = images.astype(np.float32) * np.float32(1.0 / 255.0)
        self._images, self._labels = images, labels
        self._fake = fake_data
        # Without a seed of its own a program's `np.random.seed` decides.
        self._random: Any = np.random if seed is None else np.random.RandomState(seed)
        self._epochs = 0
        self._next = 0

    @property
    def images(self) -> Array:
        return self._images

    @property
    def labels(self) -> Array:
        return self._labels

    @property
    def num_examples(self) -> int:
        return len(self._images)

    @property
    def epochs_completed(self) -> int:
        return self._epochs

    def next_batch(
        self, batch_size: int, fake_data: bool = False, shuffle: bool = True
    ) -> tuple[Array, Array]:
        """The next examples; with `shuffle` each pass over the data has an order of its own.

        A batch that comes to the end of a pass goes on with the beginning of the next.
        """
        del fake_data
        if not 0 < batch_size <= self.num_examples:
            raise ValueError(f"batch_size is {batch_size}; there are {self.num_examples} examples.")
        if self._next == 0 and self._epochs == 0 and shuffle:
            self._shuffle()
        start, end = self._next, self._next + batch_size
        images, labels = self._images[start:end], self._labels[start:end]
        self._next = end
        if end > self.num_examples:
            self._epochs += 1
            if shuffle:
                self._shuffle()
            self._next = batch_size - len(images)
            images = np.concatenate([images, self._images[: self._next]])
            labels = np.concatenate([labels, self._labels[: self._next]])
        return images, labels

    def _shuffle(self) -> None:
        order = self._random.permutation(self.num_examples)
        self._images, self._labels = self._images[order], self._labels[order]


def read_data_sets(
    train_dir: str | os.PathLike[str],
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = np.float32,
    reshape: bool = True,
    validation_size: int | None = None,
    seed: int | None = None,
    source_url: str | None = None,
) -> Datasets:
    """MNIST from the four files of a directory (`train-images-idx3-ubyte.gz` and so on).

    Without any of them the digits are synthetic, always the same, and a warning says so. If some
    are there and some are missing, that is an error. The first `validation_size` of the training
    images (5,000; 500 of synthetic ones) are for validation.
    """
    del source_url
    directory = Path(train_dir)
    found = {part: _find(directory, name) for part, name in _FILES.items()}
    if fake_data or not any(found.values()):
        if not fake_data:
            _log.warning(
                "There are no MNIST files in %s: these are synthetic digits, not MNIST.", directory
            )
        arrays = _synthetic_parts()
        held_out = _SYNTHETIC[2] if validation_size is None else validation_size
    else:
        missing = [f"{_FILES[part]}.gz" for part, path in found.items() if path is None]
        if missing:
            raise StepscopeError(
                f"{directory} has some of MNIST's files, but not {', '.join(missing)}"
            )
        arrays = _real_parts({part: path for part, path in found.items() if path is not None})
        held_out = 5000 if validation_size is None else validation_size
    train_images, train_labels, test_images, test_labels = arrays
    if not 0 <= held_out <= len(train_images):
        raise ValueError(
            f"Validation size should be between 0 and {len(train_images)}. Received: {held_out}."
        )
    if one_hot:
        train_labels, test_labels = dense_to_one_hot(train_labels), dense_to_one_hot(test_labels)

    def part(images: Array, labels: Array) -> DataSet:
        return DataSet(images, labels, dtype=dtype, reshape=reshape, seed=seed)

    return Datasets(
        part(train_images[held_out:], train_labels[held_out:]),
        part(train_images[:held_out], train_labels[:held_out]),
        part(test_images, test_labels),
    )


def dense_to_one_hot(labels_dense: Array, num_classes: int = CLASSES) -> Array:
    """Each label as a row with a one in its place."""
    rows = np.zeros((len(labels_dense), num_classes))
    rows[np.arange(len(labels_dense)), np.asarray(labels_dense, dtype=np.intp)] = 1
    return rows


# -- MNIST's files -----------------------------------------------------------------------------


def _find(directory: Path, name: str) -> Path | None:
    return next((p for p in (directory / f"{name}.gz", directory / name) if p.exists()), None)


def _real_parts(paths: dict[str, Path]) -> tuple[Array, Array, Array, Array]:
    return (
        _read(paths["train_images"], extract_images),
        _read(paths["train_labels"], extract_labels),
        _read(paths["test_images"], extract_images),
        _read(paths["test_labels"], extract_labels),
    )


def _read(path: Path, extract: Callable[[Any], Array]) -> Array:
    with path.open("rb") as file:
        return extract(file)


def _contents(f: Any, magic: int) -> tuple[list[int], bytes, str]:
    """The dimensions and the data of an IDX file, compressed or not, and its name."""
    name = str(getattr(f, "name", "the file"))
    data: bytes = f.read()
    try:
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError) as error:
        raise StepscopeError(f"{name} is damaged: {error}") from None
    found = int.from_bytes(data[:4], "big")
    if found != magic:
        raise ValueError(f"Invalid magic number {found} in MNIST file: {name} (expected {magic})")
    rank = magic & 0xFF
    sizes = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(rank)]
    body = data[4 + 4 * rank :]
    if len(body) != int(np.prod(sizes)):
        raise StepscopeError(
            f"{name} is damaged: {len(body)} bytes of data, {int(np.prod(sizes))} expected"
        )
    return sizes, body, name


def extract_images(f: Any) -> Array:
    """The images of an open file: bytes, `[n, rows, columns, 1]`."""
    sizes, body, _ = _contents(f, _IMAGES)
    return np.frombuffer(body, dtype=np.uint8).reshape(*sizes, 1)


def extract_labels(f: Any, one_hot: bool = False, num_classes: int = CLASSES) -> Array:
    """The labels of an open file."""
    _, body, _ = _contents(f, _LABELS)
    labels = np.frombuffer(body, dtype=np.uint8)
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


# -- synthetic digits --------------------------------------------------------------------------

_FONT = (
    "0111010001100111010111001100010111000100011000010000100001000010001110"
    "0111010001000010001000100010001111111110000010001000001000011000101110"
    "0001000110010101001011111000100001011111100001111000001000011000101110"
    "0011001000100001111010001100010111011111000010001000100010000100001000"
    "0111010001100010111010001100010111001110100011000101111000010001001100"
)
"""The ten digits, 5 by 7 points each, row by row."""


def _synthetic_parts() -> tuple[Array, Array, Array, Array]:
    random = np.random.default_rng(20)
    train, test, _ = _SYNTHETIC
    return (*_synthetic(random, train), *_synthetic(random, test))


def _synthetic(random: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Digits of a dotted font: moved about, of different strength, with noise."""
    labels = random.integers(0, CLASSES, count).astype(np.uint8)
    points = np.array([int(c) for c in _FONT], dtype=np.float32).reshape(CLASSES, 7, 5)
    drawn = points.repeat(3, axis=1).repeat(3, axis=2)[labels]
    images = random.normal(0, 12, (count, SIDE, SIDE)).astype(np.float32)
    strength = random.uniform(130, 250, (count, 1, 1)).astype(np.float32)
    down, right = random.integers(0, 7, count), random.integers(0, 13, count)
    for top in range(7):
        for left in range(13):
            here = np.flatnonzero((down == top) & (right == left))
            images[here, top : top + 21, left : left + 15] += drawn[here] * strength[here]
    return np.clip(images, 0, 255).astype(np.uint8)[..., None], labels
