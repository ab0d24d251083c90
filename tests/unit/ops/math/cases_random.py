"""Random ops: seeds in the graph and seeded values as TensorFlow's, others by their statistics."""

from op_cases import Case


def mean_and_spread(tf, values):
    values = tf.cast(values, tf.float64)
    mean = tf.reduce_mean(values)
    return [mean, tf.sqrt(tf.reduce_mean(tf.square(values - mean)))]


def seeded(tf, make):
    tf.set_random_seed(11)
    return make(tf)


CASES = [
    Case(
        "uniform/plain",
        ("RandomUniform",),
        lambda tf: mean_and_spread(tf, tf.random_uniform([40000])),
        tol=0.02,
    ),
    Case(
        "uniform/range",
        ("RandomUniform",),
        lambda tf: mean_and_spread(tf, tf.random_uniform([40000], -1, 3, seed=5)),
        tol=0.05,
    ),
    Case(
        "uniform/to",
        ("RandomUniform",),
        lambda tf: mean_and_spread(tf, tf.random_uniform([40000], maxval=2.0, dtype=tf.float64)),
        tol=0.03,
    ),
    Case(
        "uniform/half",
        ("RandomUniform",),
        lambda tf: mean_and_spread(tf, tf.random_uniform([40000], dtype=tf.float16)),
        tol=0.02,
    ),
    Case(
        "uniform/shape_tensor",
        ("RandomUniform",),
        lambda tf: tf.shape(tf.random_uniform([tf.constant(2), 3], name="u")),
    ),
    Case("uniform/scalar", ("RandomUniform",), lambda tf: tf.shape(tf.random_uniform([]))),
    Case(
        "uniform_int",
        ("RandomUniformInt",),
        lambda tf: mean_and_spread(tf, tf.random_uniform([40000], 3, 9, tf.int32)),
        tol=0.06,
    ),
    Case(
        "uniform_int/64",
        ("RandomUniformInt",),
        lambda tf: [
            tf.reduce_min(u := tf.random_uniform([4000], -2, 2, tf.int64, seed=1)),
            tf.reduce_max(u),
        ],
    ),
    Case(
        "normal",
        ("RandomStandardNormal",),
        lambda tf: mean_and_spread(tf, tf.random_normal([40000], 1.0, 2.0)),
        tol=0.06,
    ),
    Case(
        "normal/seeded",
        ("RandomStandardNormal",),
        lambda tf: seeded(
            tf,
            lambda tf: mean_and_spread(
                tf,
                tf.random_normal([200, 200], dtype=tf.float64, seed=-3)
                + tf.random_normal([], dtype=tf.float64)[None],
            )[1],
        ),
        tol=0.03,
    ),
    Case(
        "truncated",
        ("TruncatedNormal",),
        lambda tf: mean_and_spread(tf, tf.truncated_normal([40000], stddev=0.5)),
        tol=0.02,
    ),
    Case(
        "multinomial",
        ("Multinomial",),
        lambda tf: tf.reduce_mean(
            tf.one_hot(tf.multinomial([[0.0, 1.0, -1.0], [5.0, 0.0, 0.0]], 40000), 3), axis=1
        ),
        tol=0.02,
    ),
    Case(
        "multinomial/types",
        ("Multinomial",),
        lambda tf: tf.multinomial(
            tf.constant([[0.0, -1e9]], tf.float64), 5, seed=2, output_dtype=tf.int32
        ),
    ),
    Case(
        "shuffle",
        ("RandomShuffle",),
        lambda tf: tf.reduce_sum(tf.random_shuffle([[1, 2], [3, 4], [5, 6]], seed=9), axis=0),
    ),
    Case("shuffle/scalar", ("RandomShuffle",), lambda tf: tf.random_shuffle(4.0)),
]


def graph_seeds(tf):
    tf.set_random_seed(77)
    a = tf.random_uniform([2])
    b = tf.random_normal([2], seed=4)
    tf.add(1, 2)
    c = tf.random_shuffle([1.0, 2.0])
    return [tf.shape(t) for t in (a, b, c, tf.truncated_normal([1]))]


def zero_seeds(tf):
    tf.set_random_seed(0)
    return tf.shape(tf.random_uniform([2], seed=0))


CASES += [
    Case("seeds/graph", ("RandomUniform", "RandomStandardNormal"), graph_seeds),
    Case("seeds/zero", ("RandomUniform",), zero_seeds),
]
CASES += [
    Case(
        "uniform_int/backwards",
        ("RandomUniformInt",),
        lambda tf: tf.random_uniform([2], 5, 5, tf.int32),
        fails="run",
        match="Need minval < maxval, got 5 >= 5",
    ),
    Case(
        "uniform_int/no_limit",
        ("RandomUniformInt",),
        lambda tf: tf.random_uniform([2], dtype=tf.int32),
        fails="build",
        match="Must specify maxval",
    ),
    Case(
        "multinomial/vector", ("Multinomial",), lambda tf: tf.multinomial([1.0], 2), fails="build"
    ),
]


def drawn_twice(make):
    """What a seeded op draws, and what it draws after that in the same run of the graph."""
    return lambda tf: seeded(tf, lambda tf: [make(tf, None), make(tf, 3)])


VALUES = {
    "uniform": lambda tf, seed: tf.random_uniform([5, 7], seed=seed),
    "uniform/between": lambda tf, seed: tf.random_uniform([9], -3, 4, seed=seed),
    "uniform/float64": lambda tf, seed: tf.random_uniform([33], dtype=tf.float64, seed=seed),
    "uniform/float16": lambda tf, seed: tf.random_uniform([33], dtype=tf.float16, seed=seed),
    "uniform/none": lambda tf, seed: tf.random_uniform([0, 3], seed=seed),
    "uniform/large": lambda tf, seed: tf.random_uniform([300, 301], seed=seed),
    "int32": lambda tf, seed: tf.random_uniform([50], -7, 11, tf.int32, seed=seed),
    "int64": lambda tf, seed: tf.random_uniform([50], -(10**12), 10**13, tf.int64, seed=seed),
    "normal": lambda tf, seed: tf.random_normal([1001], seed=seed),
    "normal/float64": lambda tf, seed: tf.random_normal([101], dtype=tf.float64, seed=seed),
    "normal/float16": lambda tf, seed: tf.random_normal([101], dtype=tf.float16, seed=seed),
    "truncated": lambda tf, seed: tf.truncated_normal([40, 50], stddev=0.1, seed=seed),
    "truncated/float64": lambda tf, seed: tf.truncated_normal([99], dtype=tf.float64, seed=seed),
    "shuffle": lambda tf, seed: tf.random_shuffle(tf.range(101), seed=seed),
    "shuffle/rows": lambda tf, seed: tf.random_shuffle([["a", "b"], ["c", "d"]], seed=seed),
    "multinomial": lambda tf, seed: tf.multinomial([[1.0, 2.0, 0.5], [0.0, 0.0, 3.0]], 7, seed),
}  # fmt: skip
CASES += [
    Case(f"values/{name}", (), drawn_twice(make), grad=False) for name, make in VALUES.items()
]
CASES.append(
    Case(
        "values/dropout",
        ("RandomUniform",),
        lambda tf: seeded(tf, lambda tf: tf.nn.dropout(tf.ones([40]), rate=0.5)),
    )
)
