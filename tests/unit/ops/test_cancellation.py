"""The stop signal of a run."""

import threading

import pytest

from patience import patient
from stepscope.errors import CancelledError, DeadlineExceededError
from stepscope.ops.cancellation import CancellationToken


def late():
    return DeadlineExceededError(None, None, "late")


def closed():
    return CancelledError(None, None, "closed")


def test_a_fresh_token_lets_everything_pass():
    token = CancellationToken()
    assert not token.cancelled
    token.raise_if_cancelled()


def test_the_first_reason_stands():
    token = CancellationToken()
    assert token.cancel(late)
    assert not token.cancel(closed)
    assert token.cancelled
    with pytest.raises(DeadlineExceededError, match="late"):
        token.raise_if_cancelled()


def test_every_error_is_a_fresh_one():
    token = CancellationToken()
    token.cancel(late)
    assert token.error() is not token.error()


def test_callbacks_run_once_on_the_thread_that_cancels():
    token, called = CancellationToken(), []
    token.on_cancel(lambda: called.append(threading.current_thread()))
    thread = threading.Thread(target=token.cancel, args=(late,))
    thread.start()
    thread.join()
    token.cancel(closed)
    assert called == [thread]


def test_a_callback_that_was_unregistered_is_not_called():
    token, called = CancellationToken(), []
    forget = token.on_cancel(lambda: called.append("a"))
    token.on_cancel(lambda: called.append("b"))
    forget()
    forget()
    token.cancel(late)
    assert called == ["b"]


def test_a_callback_registered_after_the_fact_runs_at_once():
    token, called = CancellationToken(), []
    token.cancel(late)
    forget = token.on_cancel(lambda: called.append("now"))
    assert called == ["now"]
    forget()


def test_a_callback_may_use_the_token():
    token, seen = CancellationToken(), []
    token.on_cancel(lambda: seen.append(token.cancel(closed)))
    token.on_cancel(lambda: seen.append(token.cancelled))
    token.cancel(late)
    assert seen == [False, True]


def test_of_many_threads_that_cancel_one_wins():
    token, won = CancellationToken(), []
    start = threading.Barrier(8, timeout=patient(20))

    def work():
        start.wait()
        won.append(token.cancel(late))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 7 + [True]
