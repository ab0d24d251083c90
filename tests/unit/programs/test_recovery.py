"""Monitored sessions that lose their session, are told to stop, or are closed; and TensorFlow's."""

import pytest

import stepscope.tf1 as tf1

pytestmark = pytest.mark.tensorflow


def counter(tf):
    """A count of steps that starts at 0 in every session, and what makes a step."""
    step = tf.train.get_or_create_global_step()
    return step, tf.assign_add(step, 1)


def failing_hook(tf, notes, errors, where):
    """A hook that raises each of `errors` once, at the given method's call, and notes all calls."""
    left = list(errors)

    class Failing(tf.train.SessionRunHook):
        def _maybe(self, method):
            if method == where and left:
                notes.append(f"{method} fails")
                raise left.pop(0)
            notes.append(method)

        def begin(self):
            self._maybe("begin")

        def after_create_session(self, session, coord):
            self._maybe("after_create_session")

        def before_run(self, run_context):
            self._maybe("before_run")

        def after_run(self, run_context, run_values):
            self._maybe("after_run")

        def end(self, session):
            notes.append(("end", session is None))

    return Failing()


def coordinators(tf, kept):
    """A hook that keeps the coordinator of every session made."""

    class Keep(tf.train.SessionRunHook):
        def after_create_session(self, session, coord):
            kept.append(coord)

    return Keep()


def fail(coord, error):
    """What a thread of the coordinator does that fails."""
    with coord.stop_on_exception():
        raise error


@pytest.mark.parametrize("where", ["after_create_session", "before_run", "after_run"])
@pytest.mark.parametrize("name", ["AbortedError", "UnavailableError"])
def test_a_preempted_session_is_made_anew(both, name, where):
    def program(tf):
        notes = []
        train = counter(tf)[1]
        errors = [getattr(tf.errors, name)(None, None, "gone") for _ in range(2)]
        hook = failing_hook(tf, notes, errors, where)
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            values = [int(session.run(train)) for _ in range(3)]
        return values, notes

    ours, theirs = both(program)
    assert ours == theirs
    assert ours[0] == [1, 2, 3]
    assert ours[1].count("after_create_session") >= 1
    assert ours[1][0] == "begin"
    assert ours[1][-1] == ("end", False)


def test_what_was_lost_comes_from_the_last_checkpoint(both, tmp_path):
    """The step counts on from what was saved last, before the session was lost at step 5."""

    def program(tf):
        train = counter(tf)[1]
        left = [tf.errors.AbortedError(None, None, "gone")]

        class FailAtFive(tf.train.SessionRunHook):
            def after_run(self, run_context, run_values):
                if left and int(run_context.session.run(tf.train.get_global_step())) == 5:
                    raise left.pop()

        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path / tf.__name__),
            chief_only_hooks=[FailAtFive()],
            save_checkpoint_steps=2,
            save_summaries_steps=None,
            save_summaries_secs=None,
            log_step_count_steps=None,
        ) as session:
            values = [int(session.run(train)) for _ in range(6)]
        tf.summary.FileWriterCache.clear()
        return values, left

    ours, theirs = both(program)
    assert ours == theirs
    assert ours == ([1, 2, 3, 4, 5, 6], [])


def test_a_step_function_is_called_again(both):
    def program(tf):
        train = counter(tf)[1]
        left = [tf.errors.UnavailableError(None, None, "gone")]

        def step_fn(step_context):
            value = int(step_context.run_with_hooks(train))
            if value == 2 and left:
                raise left.pop()
            return value

        with tf.train.MonitoredSession() as session:
            return [session.run_step_fn(step_fn) for _ in range(3)]

    ours, theirs = both(program)
    assert ours == theirs == [1, 1, 2]


def test_input_threads_of_a_preempted_session(both):
    """Their queue is closed; that the input ended is not what the loop is told."""

    def program(tf):
        kept, taken = [], []
        queue = tf.FIFOQueue(1, tf.int64, [[]])
        number = tf.Variable(0, dtype=tf.int64)
        enqueue = queue.enqueue(tf.assign_add(number, 1))
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue]))
        take = queue.dequeue()
        with tf.train.MonitoredSession(hooks=[coordinators(tf, kept)]) as session:
            session.run(take)
            fail(kept[0], tf.errors.UnavailableError(None, None, "gone"))
            while len(kept) == 1:
                first = int(session.run(take))
            taken.append(first)
            taken.extend(int(session.run(take)) for _ in range(3))
        return taken

    ours, theirs = both(program)
    assert ours == theirs == [1, 2, 3, 4]


def test_a_singular_session_does_not_recover(both):
    def program(tf):
        notes = []
        train = counter(tf)[1]
        errors = [tf.errors.AbortedError(None, None, "gone")]
        hook = failing_hook(tf, notes, errors, "after_run")
        with (
            pytest.raises(tf.errors.AbortedError, match="gone"),
            tf.train.SingularMonitoredSession(hooks=[hook]) as session,
        ):
            session.run(train)
        return notes

    ours, theirs = both(program)
    assert ours == theirs == ["begin", "after_create_session", "before_run", "after_run fails"]


def test_a_thread_that_failed_ends_the_loop(both):
    """`should_stop()` is true, a run goes on, and leaving the block raises the error."""

    def program(tf):
        seen, kept = [], []
        train = counter(tf)[1]
        hooks = [coordinators(tf, kept)]

        def block():
            with tf.train.MonitoredSession(hooks=hooks) as session:
                seen.append(session.should_stop())
                fail(kept[0], ValueError("thread's own"))
                seen.append(session.should_stop())
                seen.append(int(session.run(train)))

        def singular_block():
            with tf.train.SingularMonitoredSession(hooks=hooks) as session:
                fail(kept[1], ValueError("thread's own"))
                with pytest.raises(ValueError, match="thread's own"):
                    session.should_stop()

        with pytest.raises(ValueError, match="thread's own"):
            block()
        with pytest.raises(ValueError, match="thread's own"):
            singular_block()
        return seen

    ours, theirs = both(program)
    assert ours == theirs == [False, True, 1]


def test_a_run_that_fails_after_a_thread_did(both):
    """The run raises its own error; the block raises the thread's, which came first."""

    def program(tf):
        kept = []
        x = tf.placeholder(tf.float32, [], name="x")
        checked = tf.check_numerics(x, "not a number")
        hooks = [coordinators(tf, kept)]

        def block():
            with tf.train.MonitoredSession(hooks=hooks) as session:
                fail(kept[0], ValueError("thread's own"))
                with pytest.raises(tf.errors.InvalidArgumentError, match="not a number"):
                    session.run(checked, {x: float("nan")})

        with pytest.raises(ValueError, match="thread's own"):
            block()

    both(program)


def test_a_thread_that_was_preempted_does_not_end_the_loop(both):
    def program(tf):
        seen, kept = [], []
        train = counter(tf)[1]
        with tf.train.MonitoredSession(hooks=[coordinators(tf, kept)]) as session:
            seen.append(int(session.run(train)))
            fail(kept[0], tf.errors.AbortedError(None, None, "gone"))
            seen.append(session.should_stop())
            seen.append(int(session.run(train)))
            # Preempted at the very end, there is nothing to be made anew.
            fail(kept[1], tf.errors.AbortedError(None, None, "gone"))
        return seen, len(kept)

    ours, theirs = both(program)
    assert ours == theirs == ([1, False, 1], 2)


def test_a_session_is_closed_once(both):
    def program(tf):
        notes = []
        train = counter(tf)[1]
        hook = failing_hook(tf, notes, (), None)
        session = tf.train.MonitoredSession(hooks=[hook])

        def block():
            with session:
                session.run(train)
                session.close()
                notes.append(("stops", session.should_stop(), session.graph))

        with pytest.raises(RuntimeError, match="Session is already closed"):
            block()
        with pytest.raises(RuntimeError, match="Session is already closed"):
            session.close()
        return notes

    ours, theirs = both(program)
    assert ours == theirs
    assert ("stops", True, None) in ours


def test_when_local_variables_are_initialised(both):
    """After the global ones, which they may be made from; not if those are not there."""

    def program(tf):
        v = tf.Variable(3.0, name="v")
        local = tf.Variable(v.read_value() * 2, collections=[tf.GraphKeys.LOCAL_VARIABLES])
        scaffold = tf.train.Scaffold()
        before = scaffold.ready_for_local_init_op
        creator = tf.train.ChiefSessionCreator(scaffold)
        with tf.train.MonitoredSession(creator) as session:
            ready = session.run(scaffold.ready_for_local_init_op)
            found = tf.get_collection(tf.GraphKeys.READY_FOR_LOCAL_INIT_OP)
            value = float(session.run(local))
        with tf.Session() as session:
            names = list(session.run(scaffold.ready_for_local_init_op))
        return before, list(ready), found == [scaffold.ready_for_local_init_op], value, names

    ours, theirs = both(program)
    assert ours == theirs == (None, [], True, 6.0, [b"v"])


def test_a_model_that_is_not_ready_for_local_variables(both):
    def refused(tf, match, **arguments):
        with tf.Graph().as_default():
            tf.Variable(1.0, name="v")
            arguments = {name: make() for name, make in arguments.items()}
            scaffold = tf.train.Scaffold(init_op=tf.no_op(), **arguments)
            with pytest.raises(RuntimeError, match=match):
                tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold))
            return tf.get_default_graph().finalized

    def program(tf):
        ran = []

        def note():
            return tf.py_func(lambda: ran.append(1) or 1, [], tf.int64)

        def nothing():
            return tf.report_uninitialized_variables([])

        first = refused(tf, r"ready for local_init.*not initialized: v", local_init_op=note)
        second = refused(
            tf, r"not make model ready\. (?s:.*)not initialized: v", ready_for_local_init_op=nothing
        )
        return first, second, ran

    ours, theirs = both(program)
    assert ours == theirs == (True, True, [])


def test_names_of_collections():
    assert tf1.GraphKeys.READY_FOR_LOCAL_INIT_OP == "ready_for_local_init_op"
