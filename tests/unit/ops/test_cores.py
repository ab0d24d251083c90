"""Work that a kernel spreads over the cores by itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import stepscope.tf1 as tf
from patience import patient
from stepscope.ops.cores import scratch, spread, spread_over_first_axis
from stepscope.ops.resources import running


@pytest.fixture(params=[1, 2, 3])
def cores(request: pytest.FixtureRequest) -> Iterator[int]:
    running.cores = request.param
    yield request.param
    running.cores = 1


def test_every_piece_is_done_once(cores: int) -> None:
    done: list[int] = []
    spread(range(100), done.append)
    assert sorted(done) == list(range(100))


def test_pieces_are_done_side_by_side() -> None:
    both = threading.Barrier(2, timeout=patient(20))
    spread(range(2), lambda _: both.wait(), threads=2)
    assert not both.broken


def test_an_error_ends_it_and_no_thread_is_left(cores: int) -> None:
    before = threading.active_count()

    def work(piece: int) -> None:
        if piece == 3:
            raise ValueError("piece 3")

    with pytest.raises(ValueError, match="piece 3"):
        spread(range(1000), work)
    assert threading.active_count() == before


def test_stretches_cover_the_first_axis(cores: int) -> None:
    x, y = np.arange(3_000_000, dtype=np.float32).reshape(3000, 1000), np.zeros((3000, 2))
    spread_over_first_axis([x, y], lambda a, b: np.copyto(b, a[:, :2]))
    np.testing.assert_array_equal(y, x[:, :2])


def test_scratch_memory_is_not_given_out_twice() -> None:
    with scratch((4,), np.dtype(np.int64)) as first, scratch((4,), np.dtype(np.int64)) as second:
        assert not np.shares_memory(first, second)


@pytest.mark.parametrize("strides", [1, 2])
def test_a_network_gives_the_same_on_any_number_of_cores(
    strides: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepscope.runtime.execute import blas_threads

    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(blas_threads.BlasThreads, "count", lambda _self, n=count: n)
        with tf.Graph().as_default(), tf.Session() as session:
            rng = np.random.default_rng(0)
            x = tf.constant(rng.random((40, 28, 28, 8), dtype=np.float32))
            w = tf.constant(rng.random((5, 5, 8, 16), dtype=np.float32))
            y = tf.nn.conv2d(x, w, [1, strides, strides, 1], "SAME")
            h = tf.nn.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
            z = tf.matmul(tf.reshape(h, [40, -1]), tf.ones([16 * (14 // strides) ** 2, 64]) / 1e3)
            found.append(session.run([y, h, z, *tf.gradients(tf.reduce_sum(z * z), [x, w])]))
    for other in found[1:]:
        for mine, theirs in zip(found[0], other, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4)
