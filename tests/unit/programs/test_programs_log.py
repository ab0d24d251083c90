"""`tf.logging`."""

import logging

import pytest

import stepscope.tf1 as tf1
from stepscope.programs import log


def test_levels(said):
    tf1.logging.set_verbosity(tf1.logging.WARN)
    assert tf1.logging.get_verbosity() == tf1.logging.WARN == logging.WARNING
    for function in ("debug", "info", "warn", "warning", "error", "fatal"):
        getattr(tf1.logging, function)("%s of %d", function, 6)
    assert said == [
        ("WARNING", "warn of 6"),
        ("WARNING", "warning of 6"),
        ("ERROR", "error of 6"),
        ("CRITICAL", "fatal of 6"),
    ]
    tf1.logging.set_verbosity("DEBUG")
    tf1.logging.log(tf1.logging.DEBUG, "now")
    tf1.logging.vlog(tf1.logging.INFO, "too")
    assert said[-2:] == [("DEBUG", "now"), ("INFO", "too")]


def test_some_of_many(said):
    tf1.logging.set_verbosity(tf1.logging.INFO)
    for i in range(7):
        tf1.logging.log_every_n(tf1.logging.INFO, "every %d", 3, i)
        tf1.logging.log_first_n(tf1.logging.INFO, "first %d", 2, i)
        tf1.logging.log_if(tf1.logging.INFO, "if %d", i == 5, i)
    expected = ["every 0", "first 0", "first 1", "every 3", "if 5", "every 6"]
    assert [text for _, text in said] == expected


def test_on_stderr_where_nothing_else_is_set_up(monkeypatch, capsys):
    alone = logging.Logger("tensorflow")
    monkeypatch.setattr(logging, "getLogger", lambda name=None: alone)
    log.warning("seen")
    log.get_logger()
    log.error("and seen")
    log.flush()
    assert capsys.readouterr().err == "WARNING:tensorflow:seen\nERROR:tensorflow:and seen\n"
    assert len(alone.handlers) == 1


@pytest.mark.tensorflow
def test_the_logger_is_tensorflows(tf):
    assert log.get_logger() is tf.get_logger()
