"""Skip-grams with negative samples: embeddings, of which each step changes some rows only."""

from __future__ import absolute_import, division, print_function

import collections

import numpy as np
import tensorflow as tf

TEXT = """
the quick brown fox jumps over the lazy dog while the small cat sleeps near the warm fire and
the old dog watches the quick cat jump over the small brown fence near the lazy river where the
fox sleeps and the old river runs over the warm brown stones while the small fire burns
"""
EMBEDDING_SIZE = 16
BATCH_SIZE = 32
NUM_SAMPLED = 8
WINDOW = 2

words = TEXT.split()
count = collections.Counter(words).most_common()
dictionary = {word: i for i, (word, _) in enumerate(count)}
reverse_dictionary = {i: word for word, i in dictionary.items()}
data = [dictionary[word] for word in words]
vocabulary_size = len(dictionary)
pairs = [
    (data[i], data[j])
    for i in range(len(data))
    for j in range(max(0, i - WINDOW), min(len(data), i + WINDOW + 1))
    if i != j
]
random = np.random.RandomState(2)


def generate_batch():
    chosen = random.randint(len(pairs), size=BATCH_SIZE)
    inputs, targets = zip(*[pairs[i] for i in chosen])
    return inputs, targets, random.randint(vocabulary_size, size=NUM_SAMPLED)


graph = tf.Graph()
with graph.as_default():
    train_inputs = tf.placeholder(tf.int32, shape=[BATCH_SIZE])
    train_labels = tf.placeholder(tf.int32, shape=[BATCH_SIZE])
    sampled = tf.placeholder(tf.int32, shape=[NUM_SAMPLED])
    with tf.device("/cpu:0"):
        start = random.uniform(-1.0, 1.0, [vocabulary_size, EMBEDDING_SIZE])
        embeddings = tf.Variable(tf.constant(start, tf.float32), name="embeddings")
        embed = tf.nn.embedding_lookup(embeddings, train_inputs)
        start = random.normal(scale=0.25, size=[vocabulary_size, EMBEDDING_SIZE])
        nce_weights = tf.Variable(tf.constant(start, tf.float32), name="nce_weights")
        nce_biases = tf.Variable(tf.zeros([vocabulary_size]), name="nce_biases")

    true_w = tf.nn.embedding_lookup(nce_weights, train_labels)
    true_b = tf.nn.embedding_lookup(nce_biases, train_labels)
    true_logits = tf.reduce_sum(tf.multiply(embed, true_w), 1) + true_b
    sampled_w = tf.nn.embedding_lookup(nce_weights, sampled)
    sampled_b = tf.nn.embedding_lookup(nce_biases, sampled)
    sampled_logits = tf.matmul(embed, sampled_w, transpose_b=True) + sampled_b
    true_xent = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.ones_like(true_logits), logits=true_logits
    )
    sampled_xent = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.zeros_like(sampled_logits), logits=sampled_logits
    )
    loss = (tf.reduce_sum(true_xent) + tf.reduce_sum(sampled_xent)) / BATCH_SIZE
    optimizer = tf.train.GradientDescentOptimizer(1.0).minimize(loss)

    norm = tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keepdims=True))
    normalized_embeddings = embeddings / norm
    similarity = tf.matmul(normalized_embeddings, normalized_embeddings, transpose_b=True)
    _, nearest = tf.nn.top_k(similarity, k=4)
    init = tf.global_variables_initializer()

with tf.Session(graph=graph) as session:
    init.run()
    for step in range(20):
        batch_inputs, batch_labels, batch_sampled = generate_batch()
        feed_dict = {
            train_inputs: batch_inputs,
            train_labels: batch_labels,
            sampled: batch_sampled,
        }
        _, loss_val = session.run([optimizer, loss], feed_dict=feed_dict)
        print("step %d: loss %.6f" % (step, loss_val))
    close = nearest.eval()
    for word in ("the", "fox", "river"):
        others = [reverse_dictionary[i] for i in close[dictionary[word]][1:]]
        print("Nearest to %s: %s" % (word, ", ".join(others)))
