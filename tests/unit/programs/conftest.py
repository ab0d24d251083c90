"""Programs that are run with our names and with TensorFlow's, in a graph of their own each."""

import logging

import pytest

import stepscope.tf1 as tf1
from stepscope.programs.summary_writers import FileWriterCache


@pytest.fixture
def both(tf):
    """`both(program)`: what `program(tf)` returns here and on TensorFlow."""
    logger = logging.getLogger("tensorflow")
    level = logger.level

    def run(program):
        results = []
        for engine in (tf1, tf):
            with engine.Graph().as_default():
                results.append(program(engine))
        return results

    yield run
    logger.setLevel(level)
    FileWriterCache.clear()
    tf.summary.FileWriterCache.clear()


@pytest.fixture
def graph():
    """A default graph of our own, for one test."""
    with tf1.Graph().as_default() as made:
        yield made
    FileWriterCache.clear()


@pytest.fixture
def said():
    """The messages of the log, and their levels, as they come."""
    found = []

    class Keep(logging.Handler):
        def emit(self, record):
            found.append((record.levelname, record.getMessage()))

    logger, handler = logging.getLogger("tensorflow"), Keep()
    level = logger.level
    logger.setLevel(logging.WARNING)
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)
    logger.setLevel(level)
