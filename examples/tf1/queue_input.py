"""Input through queues: threads read ahead, and end the training when the data is used up."""

from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf

flags = tf.app.flags
FLAGS = flags.FLAGS
flags.DEFINE_integer("num_epochs", 5, "How often the data is gone through")
flags.DEFINE_integer("batch_size", 25, "Examples per step")


def run_training():
    random = np.random.RandomState(3)
    images = random.normal(size=[100, 12]).astype(np.float32)
    labels = (images[:, :3].argmax(axis=1)).astype(np.int32)
    start = random.normal(scale=0.3, size=[12, 3]).astype(np.float32)

    with tf.Graph().as_default():
        with tf.name_scope("input"), tf.device("/cpu:0"):
            image, label = tf.train.slice_input_producer(
                [tf.constant(images), tf.constant(labels)],
                num_epochs=FLAGS.num_epochs,
                shuffle=False,
            )
            image_batch, label_batch = tf.train.batch(
                [image, label], batch_size=FLAGS.batch_size, capacity=64
            )
        weights = tf.Variable(start, name="weights")
        logits = tf.matmul(image_batch, weights)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label_batch, logits=logits)
        )
        train_op = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
        # The number of epochs is counted in a local variable.
        init_op = tf.group(tf.global_variables_initializer(), tf.local_variables_initializer())

        sess = tf.Session()
        sess.run(init_op)
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coord)
        step = 0
        try:
            while not coord.should_stop():
                _, loss_value = sess.run([train_op, loss])
                print("step %d: loss %.6f" % (step, loss_value))
                step += 1
        except tf.errors.OutOfRangeError:
            print("Done training for %d epochs, %d steps." % (FLAGS.num_epochs, step))
        finally:
            coord.request_stop()
        coord.join(threads)
        sess.close()


def main(_):
    run_training()


if __name__ == "__main__":
    tf.app.run()
