"""Monitored sessions and the hooks that come with them, beside TensorFlow's."""

import glob
import json

import pytest
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

import stepscope.tf1 as tf1
from stepscope.errors import UnimplementedError


def loop(tf, x=2.0):
    """A variable that goes from 0 to `x`; its loss, and what makes a step."""
    step = tf.train.get_or_create_global_step()
    w = tf.Variable(0.0, name="w")
    loss = tf.square(w - x, name="loss")
    tf.summary.scalar("loss", loss)
    with tf.control_dependencies(read_before(tf)):
        return loss, tf.train.GradientDescentOptimizer(0.25).minimize(loss, global_step=step)


def read_before(tf):
    """What a step waits for, so that TensorFlow's hooks see the count before it, as ours do."""
    if tf is tf1:
        return []
    from tensorflow.python.training import training_util

    return [training_util._get_or_create_global_step_read()]


def watcher(tf, notes):
    """A hook that writes down what happens to it."""

    class Watcher(tf.train.SessionRunHook):
        def begin(self):
            notes.append("begin")

        def after_create_session(self, session, coord):
            notes.append(("created", int(session.run(tf.train.get_global_step()))))

        def before_run(self, run_context):
            return tf.train.SessionRunArgs(tf.get_default_graph().get_tensor_by_name("loss:0"))

        def after_run(self, run_context, run_values):
            now = int(run_context.session.run(tf.train.get_global_step()))
            notes.append((now, round(float(run_values.results), 5)))

        def end(self, session):
            notes.append("end")

    return Watcher()


def events(directory):
    """What TensorBoard finds in a directory: kind, step and content, without times."""
    found = []
    for path in sorted(glob.glob(f"{directory}/events*")):
        for event in LegacyEventFileLoader(path).Load():
            kind = event.WhichOneof("what")
            if kind == "summary":
                for value in event.summary.value:
                    rate = "sec" in value.tag
                    number = 0.0 if rate else value.simple_value
                    found.append((kind, event.step, value.tag, round(number, 5)))
            elif kind == "tagged_run_metadata":
                found.append((kind, event.step, event.tagged_run_metadata.tag))
            elif kind == "session_log":
                found.append((kind, event.step, event.session_log.status))
            elif kind in ("graph_def", "meta_graph_def"):
                found.append((kind, event.step))
    return found


@pytest.mark.tensorflow
def test_a_training_loop(both, tmp_path):
    def program(tf):
        directory = tmp_path / ("ours" if tf is tf1 else "theirs")
        notes = []
        loss, train = loop(tf)
        hooks = [
            watcher(tf, notes),
            tf.train.StopAtStepHook(last_step=23),
            tf.train.ProfilerHook(save_steps=10, output_dir=str(directory), show_memory=True),
        ]
        with tf.train.MonitoredTrainingSession(
            summary_dir=str(directory), hooks=hooks, save_summaries_steps=7, log_step_count_steps=5
        ) as session:
            while not session.should_stop():
                value = session.run(train)
            with pytest.raises(RuntimeError, match="even after should_stop"):
                session.run(loss)
        assert value is None
        assert session.should_stop()
        tf.constant(1.0)  # The graph takes nodes again.
        tf.summary.FileWriterCache.clear()
        names = sorted(p.name for p in directory.glob("timeline*"))
        shown = json.loads((directory / "timeline-10.json").read_text())["traceEvents"]
        kinds = {event["ph"] for event in shown}
        return notes, names, "O" in kinds, "X" in kinds, events(directory)

    ours, theirs = both(program)
    assert ours == theirs
    assert ours[1] == ["timeline-10.json", "timeline-20.json"]
    assert ours[0][0] == "begin"
    assert ours[0][-1] == "end"
    steps = [step for kind, step, *rest in ours[4] if kind == "summary" and rest[0] == "loss_1"]
    assert steps == [1, 8, 15, 22]


@pytest.mark.tensorflow
def test_num_steps_and_the_values_logged(both):
    def program(tf):
        lines = []
        train = loop(tf)[1]
        hooks = [
            tf.train.StopAtStepHook(num_steps=5),
            tf.train.LoggingTensorHook(
                {"loss": "loss", "w": "w/read:0"}
                if tf is tf1
                else {"loss": "loss", "w": tf.global_variables()[1].value()},
                every_n_iter=2,
                at_end=True,
                formatter=lambda values: lines.append(round(float(values["loss"]), 5)) or "",
            ),
            tf.train.FinalOpsHook(tf.train.get_global_step()),
        ]
        with tf.train.MonitoredSession(hooks=hooks) as session:
            while not session.should_stop():
                session.run(train)
        return lines, int(hooks[2].final_ops_values)

    ours, theirs = both(program)
    assert ours == theirs
    assert ours[1] == 5


def test_what_is_logged(graph, said):
    tf1.logging.set_verbosity(tf1.logging.INFO)
    loss, train = loop(tf1)
    hooks = [
        tf1.train.StopAtStepHook(5),
        tf1.train.LoggingTensorHook([loss], every_n_iter=3),
        tf1.train.StepCounterHook(every_n_steps=2),
    ]
    with tf1.train.MonitoredSession(hooks=hooks) as session:
        while not session.should_stop():
            session.run(train)
    texts = [text for level, text in said if level == "INFO"]
    assert sum("loss:0" in text for text in texts) == 2
    assert sum(text.startswith("global_step/sec: ") for text in texts) == 2
    assert "Graph was finalized." in texts


@pytest.mark.tensorflow
def test_the_end_of_the_input_ends_the_loop(both):
    def program(tf):
        notes, found = [], []
        train = loop(tf)[1]
        number = tf.train.range_input_producer(6, num_epochs=1, shuffle=False).dequeue()
        with tf.train.MonitoredTrainingSession(hooks=[watcher(tf, notes)]) as session:
            assert tf.train.start_queue_runners(session) == []
            while not session.should_stop():
                found.append(int(session.run([number, train])[0]))
        return found, notes

    ours, theirs = both(program)
    assert ours == theirs
    assert ours[0] == list(range(6))
    assert ours[1][-1] == "end"


@pytest.mark.tensorflow
def test_errors(both):
    def program(tf):
        seen = []
        x = tf.placeholder_with_default(0.0, [], name="x")
        step = tf.train.get_or_create_global_step()
        loss = tf.log(x - 1.0, name="loss")
        count = tf.assign_add(step, 1)
        nan = tf.train.NanTensorHook(loss)
        notes = []

        def run(feeds, *hooks):
            with tf.train.MonitoredSession(hooks=hooks) as session:
                for feed in feeds:
                    session.run([count, loss], feed)
                    if feed is None:
                        raise ValueError("user's own")

        with pytest.raises(tf.train.NanLossDuringTrainingError, match="NaN loss during training"):
            run([{x: 2.0}, None], nan, watcher(tf, notes))
        seen.append([n for n in notes if isinstance(n, str)])
        gentle = tf.train.NanTensorHook(loss, fail_on_nan_loss=False)
        with tf.train.SingularMonitoredSession(hooks=[gentle]) as session:
            session.run(count)
            seen.append(session.should_stop())
        fed = tf.train.FeedFnHook(lambda: {x: 2.0})
        with tf.train.MonitoredSession(hooks=[fed]) as session:
            seen.append(float(session.run(loss)))
            with pytest.raises(RuntimeError, match="fed by a SessionRunHook and user"):
                session.run(loss, {x: 1.0})
        with pytest.raises(RuntimeError, match="Same tensor is fed by two hooks"):
            run([None], fed, tf.train.FeedFnHook(fed.feed_fn))
        with pytest.raises(ValueError, match="user's own"):
            run([None], watcher(tf, notes))
        seen.append([n for n in notes if isinstance(n, str)])
        with tf.train.MonitoredSession() as session:
            value = session.run_step_fn(
                lambda step_context: step_context.run_with_hooks(loss, {x: 2.0})
            )
            seen.append(float(value))
            session.run_step_fn(lambda step_context: step_context.request_stop())
            seen.append("not reached")
        return seen

    ours, theirs = both(program)
    assert ours == theirs
    assert ours == [["begin"], True, 0.0, ["begin", "begin"], 0.0]


@pytest.mark.tensorflow
def test_scaffolds(both):
    def program(tf):
        v = tf.Variable(1.0, name="v")
        local = tf.Variable(5.0, name="l", collections=[tf.GraphKeys.LOCAL_VARIABLES])
        x = tf.placeholder(tf.float32, [])
        calls = []
        scaffold = tf.train.Scaffold(
            init_op=tf.assign(v, x),
            init_feed_dict={x: 7.0},
            init_fn=lambda scaffold, session: calls.append(float(session.run(v))),
        )
        with tf.train.MonitoredTrainingSession(scaffold=scaffold) as session:
            return calls, [float(n) for n in session.run([v, local])]

    ours, theirs = both(program)
    assert ours == theirs == ([7.0], [7.0, 5.0])


@pytest.mark.tensorflow
def test_a_model_that_is_not_ready(both):
    def program(tf):
        tf.Variable(1.0, name="v")
        scaffold = tf.train.Scaffold(init_op=tf.no_op())
        with pytest.raises(RuntimeError, match=r"did not make model ready.*: v"):
            tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold))

    both(program)


def test_options_of_hooks_are_merged(graph):
    class Tracing(tf1.train.SessionRunHook):
        def before_run(self, run_context):
            level = tf1.RunOptions.SOFTWARE_TRACE
            return tf1.train.SessionRunArgs(
                None, options=tf1.RunOptions(trace_level=level, output_partition_graphs=True)
            )

        def after_run(self, run_context, run_values):
            self.levels = run_values.options.trace_level, run_values.options.timeout_in_ms
            self.graphs = len(run_values.run_metadata.partition_graphs)

    hook, constant = Tracing(), tf1.constant(1.0)
    mine = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE, timeout_in_ms=60_000)
    metadata = tf1.RunMetadata()
    with tf1.train.MonitoredSession(hooks=[hook]) as session:
        session.run(constant, None, mine, metadata)
    assert hook.levels == (tf1.RunOptions.FULL_TRACE, 60_000)
    assert hook.graphs == len(metadata.partition_graphs) == 1
    assert mine.output_partition_graphs is False


@pytest.mark.tensorflow
def test_checkpoints_and_going_on(both, tmp_path):
    """Training that stops and begins again: the same steps, files, log and losses."""

    def program(tf):
        directory, notes = tmp_path / tf.__name__, []

        class Listener(tf.train.CheckpointSaverListener):
            def begin(self):
                notes.append("begin")

            def before_save(self, session, global_step_value):
                notes.append(f"before {global_step_value}")

            def after_save(self, session, global_step_value):
                notes.append(f"after {global_step_value}")
                return global_step_value == 12

            def end(self, session, global_step_value):
                notes.append(f"end {global_step_value}")

        def stage(last_step, **more):
            with tf.Graph().as_default():
                loss, train = loop(tf)
                hooks = [tf.train.StopAtStepHook(last_step=last_step)]
                with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=str(directory), hooks=hooks, **more
                ) as session:
                    while not session.should_stop():
                        notes.append(round(float(session.run([loss, train])[0]), 4))
                tf.summary.FileWriterCache.clear()
            notes.append(sorted(p.name for p in directory.iterdir() if "events" not in p.name))
            notes.append((directory / "checkpoint").read_text().replace(str(directory), ""))

        stage(5, save_checkpoint_steps=2)
        # Later files may have the name of this one, which goes by the second.
        first = events(directory)
        stage(8)
        stage(9, save_checkpoint_secs=1000, save_graph_def=False)
        with tf.Graph().as_default():
            loss, train = loop(tf)
            saver = tf.train.Saver()
            hook = tf.train.CheckpointSaverHook(
                str(directory / "own"), save_steps=3, saver=saver, listeners=[Listener()]
            )
            last = tf.train.latest_checkpoint(str(directory))
            with tf.train.SingularMonitoredSession(
                hooks=[hook], checkpoint_filename_with_path=last
            ) as session:
                while not session.should_stop():
                    notes.append(round(float(session.run([loss, train])[0]), 4))
            tf.summary.FileWriterCache.clear()
        return notes, first, events(directory / "own")

    ours, theirs = both(program)
    assert ours == theirs
    assert "model.ckpt-9.index" in str(ours[0])
    assert ours[0][-3:] == ["after 12", 0.0, "end 12"]


def test_which_saver_the_hook_uses(graph, tmp_path):
    loop(tf1)
    hook = tf1.train.CheckpointSaverHook(str(tmp_path), save_steps=2)
    # The scaffold adds its saver to the collection, and the hook finds it there.
    tf1.train.MonitoredSession(hooks=[hook]).close()
    assert (tmp_path / "model.ckpt-0.index").exists()
    with tf1.Graph().as_default():
        loop(tf1)
        scaffold = tf1.train.Scaffold(saver=tf1.train.Saver())
        creator = tf1.train.ChiefSessionCreator(scaffold)
        with pytest.raises(RuntimeError, match="No items in collection savers"):
            tf1.train.MonitoredSession(creator, [hook])
    with pytest.raises(ValueError, match="both saver and scaffold"):
        tf1.train.CheckpointSaverHook("x", save_steps=1, saver=scaffold.saver, scaffold=scaffold)
    with pytest.raises(ValueError, match="both checkpoint_dir and"):
        tf1.train.ChiefSessionCreator(None, "", None, "directory", "file")


def test_one_process_alone(graph):
    with pytest.raises(UnimplementedError, match="is_chief=False"):
        tf1.train.MonitoredTrainingSession(is_chief=False)


def test_hooks_that_need_a_global_step(graph, tmp_path):
    for hook in (
        tf1.train.StopAtStepHook(3),
        tf1.train.StepCounterHook(),
        tf1.train.ProfilerHook(3, output_dir=tmp_path),
        tf1.train.SummarySaverHook(3, summary_op=tf1.constant("")),
        tf1.train.CheckpointSaverHook(tmp_path, save_steps=3),
    ):
        name = type(hook).__name__
        with pytest.raises(RuntimeError, match=f"Global step should be created to use {name}"):
            tf1.train.MonitoredSession(hooks=[hook])


def test_timer():
    timer = tf1.train.SecondOrStepTimer(every_steps=3)
    due = []
    for step in range(8):
        if timer.should_trigger_for_step(step):
            due.append((step, timer.update_last_triggered_step(step)[1]))
        assert not timer.should_trigger_for_step(timer.last_triggered_step())
    assert due == [(0, None), (3, 3), (6, 3)]
    for arguments in ({}, {"every_secs": 1, "every_steps": 1}):
        with pytest.raises(ValueError, match="every_secs"):
            tf1.train.SecondOrStepTimer(**arguments)
    assert tf1.train.SecondOrStepTimer(every_secs=1000).should_trigger_for_step(0)
