"""TensorShape and Dimension: the same questions to TensorFlow's and to ours."""

import pytest

from stepscope.graph import Dimension, TensorShape

SHAPES = [None, [], [2], [None], [2, 3], [2, None], [None, 3], [2, 3, 4], [0], [1, None, None]]


def outcome(function):
    try:
        result = function()
    except (ValueError, TypeError) as error:
        return type(error).__name__
    if hasattr(result, "as_list"):
        return None if result.rank is None else result.as_list()
    return result


QUESTIONS = {
    "rank": lambda s: s.rank,
    "ndims": lambda s: s.ndims,
    "list": lambda s: s.as_list(),
    "length": len,
    "defined": lambda s: s.is_fully_defined(),
    "assert_defined": lambda s: s.assert_is_fully_defined(),
    "elements": lambda s: s.num_elements(),
    "truth": bool,
    "text": str,
    "tail": lambda s: s[1:],
    "with_rank": lambda s: s.with_rank(2),
    "proto": lambda s: str(s.as_proto()),
    "concatenate": lambda s: s.concatenate([7, None]),
    "again": lambda s: s == type(s)(s),
}


@pytest.mark.parametrize("dims", SHAPES, ids=str)
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS.keys())
def test_one_shape(tf, dims, question):
    ours = outcome(lambda: question(TensorShape(dims)))
    theirs = outcome(lambda: question(tf.TensorShape(dims)))
    if isinstance(ours, str):
        # TensorFlow 2 writes None where TensorFlow 1 wrote "?".
        assert ours.replace("?", "None") == theirs
    else:
        assert ours == theirs


@pytest.mark.parametrize("a", SHAPES, ids=str)
@pytest.mark.parametrize("b", SHAPES, ids=str)
def test_two_shapes(tf, a, b):
    for question in (
        lambda x, y: x.is_compatible_with(y),
        lambda x, y: x.merge_with(y),
        lambda x, y: x.concatenate(y),
        lambda x, y: x.assert_is_compatible_with(y),
    ):
        ours = outcome(lambda q=question: q(TensorShape(a), TensorShape(b)))
        theirs = outcome(lambda q=question: q(tf.TensorShape(a), tf.TensorShape(b)))
        assert ours == theirs
    assert (TensorShape(a) == TensorShape(b)) == (a == b)


def test_a_clash_names_both_shapes():
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, \?, 4\)"):
        TensorShape([2, 3]).merge_with([2, None, 4])


def test_shapes_are_hashable_and_made_from_many_things(tf):
    assert {TensorShape([2, None]): 1}[TensorShape((2, None))] == 1
    assert TensorShape([Dimension(2), None]) == [2, None]
    assert TensorShape(tf.TensorShape([2, None])) == [2, None]
    assert TensorShape(tf.TensorShape([2, None]).as_proto()) == [2, None]
    assert TensorShape(4) == [4]
    with pytest.raises(ValueError, match="-2"):
        TensorShape([-2])


def test_items_are_dimensions_as_in_tensorflow_1():
    shape = TensorShape([2, None])
    assert shape[0].value == 2
    assert shape[1].value is None
    assert [d.value for d in shape] == [2, None]
    assert shape.dims[0] == 2
    assert int(shape[0]) == 2
    assert list(range(shape[0])) == [0, 1]
    assert TensorShape(None)[0].value is None


ARITHMETIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "radd": lambda a, b: 3 + a,
    "rmul": lambda a, b: 3 * a,
    "rsub": lambda a, b: 30 - a,
    "rfloordiv": lambda a, b: 30 // a,
    "rmod": lambda a, b: 30 % a,
    "merge": lambda a, b: a.merge_with(b),
    "compatible": lambda a, b: a.is_compatible_with(b),
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("operation", ARITHMETIC.values(), ids=ARITHMETIC.keys())
@pytest.mark.parametrize("b", [2, 7, None])
@pytest.mark.parametrize("a", [7, None])
def test_dimensions(tf, a, b, operation):
    def answer(kind, other):
        try:
            result = operation(kind(a), other)
        except (ValueError, TypeError) as error:
            return type(error).__name__
        return (result.value,) if hasattr(result, "value") else result

    theirs = tf.compat.v1.Dimension
    assert answer(Dimension, Dimension(b)) == answer(theirs, theirs(b))
    if b is not None:
        assert answer(Dimension, b) == answer(theirs, b)


def test_dimensions_print_as_in_tensorflow(tf):
    for value in (3, None):
        assert str(Dimension(value)) == str(tf.compat.v1.Dimension(value))
        assert repr(Dimension(value)) == repr(tf.compat.v1.Dimension(value))
    with pytest.raises(TypeError, match="unknown"):
        int(Dimension(None))
    with pytest.raises(ValueError, match="-1"):
        Dimension(-1)
