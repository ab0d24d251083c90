"""Queues: the nodes they make, and what comes out in one run."""

import numpy as np
from op_cases import Case


def pair(tf, capacity=4):
    return tf.FIFOQueue(capacity, [tf.float32, tf.int32], shapes=[[2], []], name="q")


ROWS = [[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1, 2, 3]]


def one(tf):
    q = pair(tf)
    with tf.control_dependencies([q.enqueue(([1.0, 2.0], 3))]):
        return [*q.dequeue(), q.queue_ref.op]


def filled(then, **keywords):
    def build(tf):
        q = pair(tf, **keywords)
        with tf.control_dependencies([q.enqueue_many(ROWS)]):
            return then(tf, q)

    return build


def closed(then):
    def close_first(tf, q):
        with tf.control_dependencies([q.close()]):
            return then(q)

    return filled(close_first)


def of_any_shape(tf):
    q = tf.FIFOQueue(2, tf.string)
    with tf.control_dependencies([q.enqueue("one")]):
        first = q.dequeue()
    with tf.control_dependencies([first]), tf.control_dependencies([q.enqueue([["a", "b"]])]):
        return [first, q.dequeue()]


def with_names(tf):
    q = tf.FIFOQueue(3, [tf.float32, tf.int64], names=["a", "b"], shared_name="shared")
    with tf.control_dependencies([q.enqueue({"b": np.int64(2), "a": 1.5})]):
        element = q.dequeue()
    return [element["a"], element["b"]]


def shuffled(tf):
    q = tf.RandomShuffleQueue(10, 0, [tf.float32], [[2]], seed=3)
    with tf.control_dependencies([q.enqueue_many([np.arange(16.0).reshape(8, 2)])]):
        return q.dequeue_many(7)


def fed(shape):
    return lambda tf: tf.FIFOQueue(3, tf.float32, [shape]).enqueue(
        tf.placeholder(tf.float32, name="x")
    )


CASES = [
    Case("queue/one", ("FIFOQueueV2", "QueueEnqueueV2", "QueueDequeueV2"), one),
    Case("queue/many", ("QueueEnqueueManyV2", "QueueDequeueManyV2"),
         filled(lambda _tf, q: q.dequeue_many(2))),
    Case("queue/none of many", ("QueueDequeueManyV2",), filled(lambda _tf, q: q.dequeue_many(0))),
    Case("queue/size", ("QueueSizeV2",), filled(lambda _tf, q: q.size())),
    Case("queue/close", ("QueueCloseV2", "QueueIsClosedV2"), closed(lambda q: q.is_closed())),
    Case("queue/open", ("QueueIsClosedV2",), filled(lambda _tf, q: q.is_closed())),
    Case("queue/rest", ("QueueDequeueUpToV2",), closed(lambda q: q.dequeue_up_to(7))),
    Case("queue/cancel", ("QueueCloseV2",),
         filled(lambda _tf, q: q.close(cancel_pending_enqueues=True))),
    Case("queue/any shape", ("FIFOQueueV2",), of_any_shape),
    Case("queue/names", ("FIFOQueueV2",), with_names),
    Case("queue/shuffle", ("RandomShuffleQueueV2",), shuffled),
    Case("queue/too few", (), closed(lambda q: q.dequeue_many(4)), fails="run",
         match="is closed and has insufficient elements (requested 4, current size 3)"),
    Case("queue/closed", (), closed(lambda q: q.enqueue(([1.0, 2.0], 3))), fails="run",
         match="is closed."),
    Case("queue/closed twice", (), closed(lambda q: q.close()), fails="run",
         match="is already closed."),
    Case("queue/bad shape", (), fed([2]), {"x:0": [1.0, 2.0, 3.0]}, fails="run",
         match="Shape mismatch in tuple component 0. Expected [2], got [3]"),
    Case("queue/bad static shape", (),
         lambda tf: tf.FIFOQueue(2, tf.float32, [[2]]).enqueue([[1.0, 2.0, 3.0]]), fails="build",
         match="Shapes (3,) and (2,) are incompatible"),
    Case("queue/bad dtype", (), lambda tf: tf.FIFOQueue(2, tf.int32).enqueue([1.5]),
         fails="build", match="int32"),
    Case("queue/bad keys", (),
         lambda tf: tf.FIFOQueue(2, tf.int32, names=["a"]).enqueue({"b": 1}), fails="build",
         match="do not match names of Queue"),
    Case("queue/no names", (), lambda tf: tf.FIFOQueue(2, tf.int32).enqueue({"b": 1}),
         fails="build", match="must have names"),
    Case("queue/lengths", (), lambda tf: tf.FIFOQueue(2, tf.int32, [[2], [3]]), fails="build",
         match="len(shapes)=2, len(dtypes)=1"),
    Case("queue/negative", (), lambda tf: pair(tf).dequeue_many(-1), fails="build",
         match="must be >= 0, but is -1"),
    Case("queue/many of unknown", (), lambda tf: tf.FIFOQueue(2, tf.int32).dequeue_many(1),
         fails="run", match="require the components to have specified shapes"),
]  # fmt: skip
