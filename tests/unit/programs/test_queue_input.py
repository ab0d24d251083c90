"""Queue runners, producers and batches, beside TensorFlow's."""

import numpy as np
import pytest

import stepscope.tf1 as tf1
from stepscope.errors import FailedPreconditionError, OutOfRangeError

ROWS = np.arange(14, dtype=np.float32).reshape(7, 2)
NAMES = np.array([b"a", b"b", b"c", b"d", b"e", b"f", b"g"], dtype=object)


def until_the_end(tf, fetches):
    """All that comes until the input is at its end."""
    found = []
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        try:
            while not coord.should_stop() and len(found) < 100:
                found.append(sess.run(fetches))
        except tf.errors.OutOfRangeError:
            coord.request_stop()
        coord.join(threads)
    return found


def nodes(graph):
    """What a graph is made of, without what TensorFlow makes of a variable's initialisation."""
    return {
        (op.name, op.type, tuple(i.name for i in op.inputs))
        for op in graph.get_operations()
        if "epochs" not in op.name and op.type not in ("Const", "NoOp")
    }


def in_batches(tf):
    number, name = tf.train.slice_input_producer(
        [tf.constant(ROWS), tf.constant(NAMES.tolist())], num_epochs=2, shuffle=False
    )
    batch = tf.train.batch([number, name], 4, allow_smaller_final_batch=True)
    found = until_the_end(tf, batch)
    return [(a.tolist(), b.tolist()) for a, b in found], nodes(tf.get_default_graph())


def in_order(tf):
    queue = tf.train.range_input_producer(5, num_epochs=2, shuffle=False, name="numbers")
    strings = tf.train.string_input_producer(["x", "y"], num_epochs=5, shuffle=False)
    found = until_the_end(tf, [queue.dequeue(), strings.dequeue()])
    return found, nodes(tf.get_default_graph())


def as_a_dict(tf):
    value = tf.train.input_producer(tf.constant(ROWS), num_epochs=1, shuffle=False).dequeue()
    batch = tf.train.batch({"one": value, "two": value * 2.0}, 7, capacity=9, name="mine")
    ((found),) = until_the_end(tf, batch)
    shapes = {key: tensor.shape.as_list() for key, tensor in batch.items()}
    return found["one"].tolist(), found["two"].tolist(), shapes, nodes(tf.get_default_graph())


def many_at_once(tf):
    rows = tf.train.limit_epochs(tf.constant(ROWS), num_epochs=3)
    found = until_the_end(tf, tf.train.batch([rows], 7, enqueue_many=True))
    return [x.tolist() for x in found], nodes(tf.get_default_graph())


def padded(tf):
    queue = tf.train.range_input_producer(4, num_epochs=1, shuffle=False)
    row = tf.range(queue.dequeue() + 1)
    found = until_the_end(tf, tf.train.batch([row], 2, dynamic_pad=True))
    return [x.tolist() for x in found], nodes(tf.get_default_graph())


def from_several(tf):
    rows = [tf.train.limit_epochs(tf.constant(ROWS), num_epochs=1) for _ in range(2)]
    batch = tf.train.batch_join([[r] for r in rows], 7, enqueue_many=True)
    found = until_the_end(tf, batch)
    rest = tf.train.shuffle_batch_join([[tf.constant(1)], [tf.constant(2)]], 2, 9, 3)
    assert rest.shape == [2]
    rows = sorted(row for x in found for row in x.tolist())
    return rows, set()


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "program", [padded, from_several, in_batches, in_order, as_a_dict, many_at_once]
)
def test_what_comes_out_and_the_nodes_it_takes(both, program):
    ours, theirs = both(program)
    assert ours[-1] ^ theirs[-1] == set()
    assert ours == theirs
    assert ours[0]


@pytest.mark.tensorflow
def test_shuffled(both):
    def program(tf):
        value = tf.train.range_input_producer(20, num_epochs=1, seed=5).dequeue()
        batch = tf.train.shuffle_batch(
            [value], 4, capacity=16, min_after_dequeue=8, num_threads=2, seed=3
        )
        found = until_the_end(tf, batch)
        values = np.concatenate(found).tolist()
        return sorted(values), values != sorted(values), nodes(tf.get_default_graph())

    ours, theirs = both(program)
    assert ours == theirs
    assert ours[0] == list(range(20))


@pytest.mark.tensorflow
def test_an_error_of_a_thread_reaches_join(both):
    def program(tf):
        x = tf.placeholder_with_default(3, [])
        queue = tf.FIFOQueue(4, tf.int32, shapes=[[]])
        wrong = queue.enqueue(tf.gather([1, 2], x))
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [wrong]))
        taken = queue.dequeue()
        with tf.Session() as sess:
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess, coord)
            assert [t.daemon for t in threads] == [True, True]
            with pytest.raises((tf.errors.OutOfRangeError, tf.errors.CancelledError)) as raised:
                sess.run(taken)
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"3 is not in \[0, 2\)"):
                coord.join(threads)
            return type(raised.value).__name__

    ours, theirs = both(program)
    assert ours == theirs


def test_threads_that_are_stuck_in_a_full_queue_end(graph):
    queue = tf1.FIFOQueue(2, tf1.float32, shapes=[[]])
    runner = tf1.train.QueueRunner(queue, [queue.enqueue(1.0)] * 3)
    tf1.train.add_queue_runner(runner)
    with tf1.Session() as sess:
        coord = tf1.train.Coordinator()
        threads = tf1.train.start_queue_runners(sess, coord)
        assert runner.create_threads(sess, coord) == []
        assert sess.run(queue.dequeue()) == 1.0
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=20)
        assert len(threads) == 4
        assert sess.run(queue.is_closed())


def test_without_a_coordinator_errors_are_kept(graph, said):
    queue = tf1.FIFOQueue(2, tf1.int32, shapes=[[]])
    number = tf1.train.limit_epochs(tf1.constant(4), 3)
    runner = tf1.train.QueueRunner(queue, [queue.enqueue(number)])
    with tf1.Session() as sess:
        # The count of epochs has no value yet.
        (thread,) = runner.create_threads(sess)
        with pytest.raises(FailedPreconditionError, match="uninitialized value"):
            thread.run()
        assert "uninitialized value" in str(runner.exceptions_raised[0])
        assert said[-1][0] == "ERROR"
        sess.run(tf1.local_variables_initializer())
        (thread,) = runner.create_threads(sess, start=True)
        found = [sess.run(queue.dequeue()) for _ in range(3)]
        with pytest.raises(OutOfRangeError):
            sess.run(queue.dequeue())
        thread.join()
        assert found == [4, 4, 4]
        assert runner.exceptions_raised == []


def test_wrong_arguments(graph):
    queue = tf1.FIFOQueue(2, tf1.int32, shapes=[[]])
    enqueue = queue.enqueue(1)
    with pytest.raises(ValueError, match="Must provide queue and enqueue_ops"):
        tf1.train.QueueRunner(queue, [])
    with pytest.raises(TypeError, match=r"must be a tuple of tf\.error types"):
        tf1.train.QueueRunner(queue, [enqueue], queue_closed_exception_types=(ValueError,))
    with pytest.raises(ValueError, match="No default session is registered"):
        tf1.train.start_queue_runners()
    with pytest.raises(TypeError, match=r"sess must be a `tf\.Session`"):
        tf1.train.start_queue_runners(sess=3)
    with pytest.raises(ValueError, match="must be bigger than min_after_dequeue"):
        tf1.train.shuffle_batch([tf1.constant(1)], 2, capacity=4, min_after_dequeue=4)
    with pytest.raises(ValueError, match="num_epochs must be > 0"):
        tf1.train.limit_epochs(tf1.constant(1), 0)
    with pytest.raises(ValueError, match="fully defined shape"):
        tf1.train.input_producer(tf1.placeholder(tf1.float32))
    with pytest.raises(ValueError, match="Cannot infer Tensor's rank"):
        tf1.train.batch([tf1.placeholder(tf1.float32)], 2)
    with pytest.raises(TypeError, match="Expected types to be consistent"):
        tf1.train.batch_join([[tf1.constant(1)], [tf1.constant(1.0)]], 2)


@pytest.mark.tensorflow
def test_names_of_threads(both):
    def program(tf):
        queue = tf.FIFOQueue(10, tf.float32, [[]], name="mine")
        runner = tf.train.QueueRunner(queue, [queue.enqueue(1.0), queue.enqueue(2.0)])
        tf.train.batch([tf.train.string_input_producer(["a"]).dequeue()], 2)
        with tf.Session() as session:
            coord = tf.train.Coordinator()
            own = runner.create_threads(session, coord)
            found = tf.train.start_queue_runners(session, coord, start=False)
            return [(thread.name, thread.daemon) for thread in (*own, *found)]

    ours, theirs = both(program)
    assert ours == theirs
    assert ours[0] == ("QueueRunnerThread-mine-mine_enqueue", False)
