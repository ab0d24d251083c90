"""Examples in a TFRecord file, read back by a reader, parsed and trained on in batches."""

from __future__ import absolute_import, division, print_function

import os
import shutil
import tempfile

import numpy as np
import tensorflow as tf

flags = tf.app.flags
FLAGS = flags.FLAGS
flags.DEFINE_integer("num_epochs", 4, "How often the file is read")
flags.DEFINE_integer("batch_size", 20, "Examples per step")


def convert_to(path):
    """Write pictures of random dots and the half that most of them are in."""
    random = np.random.RandomState(7)
    writer = tf.python_io.TFRecordWriter(path)
    for _ in range(100):
        image = random.randint(0, 256, size=[4, 6]).astype(np.uint8)
        label = int(image[:, :3].sum() > image[:, 3:].sum())
        example = tf.train.Example(
            features=tf.train.Features(
                feature={
                    "image_raw": tf.train.Feature(
                        bytes_list=tf.train.BytesList(value=[image.tobytes()])
                    ),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
            )
        )
        writer.write(example.SerializeToString())
    writer.close()


def read_and_decode(filename_queue):
    _, serialized = tf.TFRecordReader().read(filename_queue)
    features = tf.parse_single_example(
        serialized,
        features={
            "image_raw": tf.FixedLenFeature([], tf.string),
            "label": tf.FixedLenFeature([], tf.int64),
        },
    )
    image = tf.decode_raw(features["image_raw"], tf.uint8)
    image.set_shape([24])
    image = tf.cast(image, tf.float32) * (1.0 / 255) - 0.5
    return image, tf.cast(features["label"], tf.int32)


def run_training(path):
    with tf.Graph().as_default():
        filename_queue = tf.train.string_input_producer(
            [path], num_epochs=FLAGS.num_epochs, shuffle=False
        )
        image, label = read_and_decode(filename_queue)
        images, labels = tf.train.batch([image, label], batch_size=FLAGS.batch_size, capacity=60)
        weights = tf.Variable(tf.zeros([24, 2]), name="weights")
        biases = tf.Variable(tf.zeros([2]), name="biases")
        logits = tf.matmul(images, weights) + biases
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        train_op = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
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
    directory = tempfile.mkdtemp()
    try:
        path = os.path.join(directory, "train.tfrecords")
        convert_to(path)
        run_training(path)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    tf.app.run()
