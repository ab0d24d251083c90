"""The executors that random graphs run on, and sessions of them."""

import contextlib

import numpy as np
import pytest
from random_graphs import build

import stepscope.tf1 as tf
from stepscope.options import ConfigProto, RunOptions, ThreadPoolOptionProto
from stepscope.runtime.plan import plan


def _pools(size):
    return {"session_inter_op_thread_pool": [ThreadPoolOptionProto(num_threads=size)]}


def _handled():
    options = RunOptions()
    options.experimental.use_run_handler_pool = True
    return options


# name: (config, options, whether every op is to be handed over as if it were expensive)
EXECUTORS = {
    "caller's thread": ({}, RunOptions(inter_op_thread_pool=-1), False),
    "default": ({}, RunOptions(), False),
    "everything parallel": (_pools(2), RunOptions(), True),
    "pool of one": (_pools(1), RunOptions(), True),
    "pool of four": (_pools(4), RunOptions(), True),
    "with a deadline": ({}, RunOptions(timeout_in_ms=120_000), False),
    "on the caller's thread with a deadline": (
        {}, RunOptions(timeout_in_ms=120_000, inter_op_thread_pool=-1), False,
    ),
    "run-handler pool": ({}, _handled(), True),
}  # fmt: skip


@contextlib.contextmanager
def all_expensive(on):
    with pytest.MonkeyPatch.context() as patch:
        if on:
            patch.setattr(plan, "EXPENSIVE_NS", -1)
        yield


@contextlib.contextmanager
def session_of(spec, executor):
    config, options, expensive = EXECUTORS[executor] if isinstance(executor, str) else executor
    with all_expensive(expensive):
        built = build(spec, tf)
        session = tf.Session(
            graph=built.graph, config=ConfigProto(device_count={"CPU": spec.devices}, **config)
        )
        try:
            session.run(built.init)
            yield session, built, options
        finally:
            session.close()


def runs_of(fed):
    """Three runs' feeds: the example, and others of the same shapes."""
    return [{i: np.asarray(v + v.dtype.type(k)) for i, v in fed.items()} for k in (0, 1, 3)]


def with_options(options, **more):
    made = RunOptions()
    made.CopyFrom(options)
    for name, value in more.items():
        setattr(made, name, value)
    return made
