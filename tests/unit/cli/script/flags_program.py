"""Reads flags every way TensorFlow 1 programs do, and prints what it found."""

import sys

import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_string("name", "nobody", "A name")
flags.DEFINE_integer(flag_name="count", default_value=3, docstring="As early programs write it")
flags.DEFINE_float("rate", 0.5, "A rate")
flags.DEFINE_boolean("fast", True, "A switch")
flags.DEFINE_bool("loud", False, "Another")
tf.flags.DEFINE_enum("mode", "train", ["train", "test"], "One of two")
tf.flags.DEFINE_list("layers", ["1", "2"], "Several")
FLAGS = tf.app.flags.FLAGS


def main(argv):
    print(argv[1:])
    print(FLAGS.name, FLAGS.count, FLAGS.rate, FLAGS.fast, FLAGS.loud, FLAGS.mode, FLAGS.layers)
    FLAGS.count = 9
    print(FLAGS.count, "count" in FLAGS, tf.flags.FLAGS.count)
    try:
        print(FLAGS.absent)
    except AttributeError as error:
        print("AttributeError", error)
    try:
        flags.DEFINE_string("name", "", "Again")
    except tf.flags.DuplicateFlagError:
        print("DuplicateFlagError")
    return 3


if __name__ == "__main__":
    sys.argv[1:] = [
        "--name=x",
        "--count",
        "4",
        "--nofast",
        "--loud",
        "--mode",
        "test",
        "--layers=3,4",
        "--unknown",
        "a",
        "b",
    ]
    tf.app.run()
