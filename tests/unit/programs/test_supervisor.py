"""`tf.train.Supervisor` and `SessionManager`, beside TensorFlow's."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event

import stepscope.tf1 as tf1
from patience import patient
from stepscope.errors import UnimplementedError


def model(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", initializer=2.0)
    tf.get_variable("seen", initializer=1.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    tf.summary.scalar("w", w)
    with tf.control_dependencies([w.assign_add(1.0).op]):
        return tf.assign_add(step, 1)


def events(directory: Path) -> list[Any]:
    found = []
    for path in sorted(directory.glob("events*")):
        found += [Event.FromString(raw) for raw in RawEventFileLoader(str(path)).Load()]
    return found


def test_a_managed_session_trains_saves_and_goes_on(both: Any, tmp_path: Path) -> None:
    def program(tf: Any) -> Any:
        directory = tmp_path / ("ours" if tf is tf1 else "theirs")
        steps, saved = [], []
        for _ in range(2):
            with tf.Graph().as_default():
                train = model(tf)
                # Threads of TensorFlow 2 are eager: its supervisor cannot run any there.
                supervisor = tf.train.Supervisor(
                    logdir=str(directory), save_model_secs=0, save_summaries_secs=0
                )
                with supervisor.managed_session() as session:
                    while not supervisor.should_stop():
                        steps.append(int(session.run(train)))
                        if len(steps) % 3 == 0:
                            supervisor.request_stop()
                    path = supervisor.saver.save(
                        session, supervisor.save_path, global_step=supervisor.global_step
                    )
                    saved.append(Path(path).name)
        written = events(directory)
        return (
            steps,
            saved,
            # TensorFlow writes a second file over a first of the same second.
            {e.session_log.status for e in written if e.HasField("session_log")},
            any(e.HasField("graph_def") for e in written),
            (directory / "graph.pbtxt").exists(),
        )

    ours, theirs = both(program)
    assert ours == theirs
    assert ours[0] == [1, 2, 3, 4, 5, 6]


def test_checkpoints_and_summaries_are_saved_beside_the_program(tmp_path: Path) -> None:
    with tf1.Graph().as_default():
        train = model(tf1)
        supervisor = tf1.train.Supervisor(logdir=tmp_path, checkpoint_basename="mine")
        writer, added, all_added = supervisor.summary_writer, set(), threading.Event()

        def note(what: str) -> None:
            added.add(what)
            if len(added) == 3:
                all_added.set()

        class Told:
            """The writer, which tells when each of the three threads wrote."""

            def add_session_log(self, entry: Any, step: int | None = None) -> None:
                writer.add_session_log(entry, step)
                if entry.checkpoint_path:
                    note("checkpoint")

            def add_summary(self, summary: Any, step: int) -> None:
                writer.add_summary(summary, step)
                note("speed" if hasattr(summary, "value") else "summary")

            def __getattr__(self, name: str) -> Any:
                return getattr(writer, name)

        supervisor.summary_writer = Told()
        with supervisor.managed_session() as session:
            session.run(train)
            assert all_added.wait(patient(20))
        assert list(tmp_path.glob("mine-*.index"))
        written = events(tmp_path)
        logged = [e.session_log for e in written if e.HasField("session_log")]
        tags = {value.tag for event in written for value in event.summary.value}
        assert tags == {"w_1", "global_step/sec"}
        assert str(tmp_path / "mine") in [entry.checkpoint_path for entry in logged]


def test_an_error_in_the_block_is_raised_at_its_end(both: Any) -> None:
    def program(tf: Any) -> Any:
        model(tf)
        supervisor = tf.train.Supervisor()
        with pytest.raises(ZeroDivisionError), supervisor.managed_session():
            raise ZeroDivisionError
        supervisor = tf.train.Supervisor()
        with supervisor.managed_session():
            raise tf.errors.OutOfRangeError(None, None, "the end")
        return supervisor.should_stop()

    assert both(program) == [True, True]


def test_loops_stop_with_the_supervisor() -> None:
    with tf1.Graph().as_default():
        supervisor = tf1.train.Supervisor(logdir=None)
        called = threading.Event()
        with supervisor.managed_session():
            thread = supervisor.Loop(None, called.set)
            assert called.wait(patient(20))
        assert not thread.is_alive()


def test_what_is_given_is_used(both: Any) -> None:
    def program(tf: Any) -> Any:
        w = tf.get_variable("w", [], tf.float32)
        fed = tf.placeholder(tf.float32, [])
        told: list[Any] = []
        supervisor = tf.train.Supervisor(
            init_op=w.assign(fed), init_feed_dict={fed: 7.0}, summary_op=None, saver=None,
            init_fn=told.append,
        )  # fmt: skip
        session = supervisor.PrepareSession()
        value = float(session.run(w))
        with pytest.raises(RuntimeError, match="requires a summary writer"):
            supervisor.summary_computed(session, b"")
        supervisor.Stop()
        names = [supervisor.saver, supervisor.summary_op, supervisor.global_step]
        return value, told == [session], names, supervisor.save_path

    ours, theirs = both(program)
    assert ours == theirs


def test_a_model_that_is_not_ready_says_which_variables(both: Any) -> None:
    def program(tf: Any) -> str:
        tf.get_variable("w", [], tf.float32)
        supervisor = tf.train.Supervisor(init_op=tf.no_op(name="nothing"))
        with pytest.raises(RuntimeError, match="did not make model ready") as caught:
            supervisor.prepare_or_wait_for_session()
        return str(caught.value).partition("error: ")[2]

    ours, theirs = both(program)
    assert ours == theirs == "Variables not initialized: w"


def test_a_worker_has_no_chief_to_wait_for() -> None:
    with tf1.Graph().as_default():
        supervisor = tf1.train.Supervisor(is_chief=False)
        with pytest.raises(UnimplementedError, match="Use prepare_session"):
            supervisor.prepare_or_wait_for_session("grpc://somewhere")
        with pytest.raises(RuntimeError, match="Only chief supervisor"):
            supervisor.start_standard_services(None)


def test_a_session_manager_restores(both: Any, tmp_path: Path) -> None:
    def program(tf: Any) -> Any:
        directory = tmp_path / ("ours" if tf is tf1 else "theirs")
        directory.mkdir()
        w = tf.get_variable("w", initializer=2.0)
        start, saver = tf.global_variables_initializer(), tf.train.Saver()
        manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
        with manager.prepare_session("", init_op=start) as session:
            session.run(w.assign(9.0))
            saver.save(session, str(directory / "model"))
        found = []
        for place in (directory, directory / "nowhere"):
            session, ready = manager.recover_session("", saver, checkpoint_dir=str(place))
            found.append((ready, ready and float(session.run(w))))
            session.close()
        with pytest.raises(RuntimeError, match="no init_op or init_fn"):
            manager.prepare_session("")
        return found

    ours, theirs = both(program)
    assert ours == theirs == [(True, 9.0), (False, False)]
