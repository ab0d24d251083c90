"""The error tree is TensorFlow's, carries metadata, and pickles."""

from __future__ import annotations

import copy
import pickle
import traceback
from types import SimpleNamespace

import pytest

from stepscope import errors
from stepscope._messages import NodeDef

CODES = list(range(1, 17))


@pytest.mark.tensorflow
@pytest.mark.parametrize("code", CODES)
def test_classes_and_codes_are_tensorflows(tf, code):
    theirs = tf.errors.exception_type_from_error_code(code)
    ours = errors.exception_type_from_error_code(code)
    assert ours.__name__ == theirs.__name__
    name = errors.code_name(code)
    assert getattr(tf.errors, name) == getattr(errors, name) == code
    assert errors.error_code_from_exception_type(ours) == code
    raised = ours(None, None, "went wrong")
    assert raised.error_code == code
    assert isinstance(raised, errors.OpError)


@pytest.mark.tensorflow
def test_text_is_tensorflows(tf):
    graph = tf.Graph()
    with graph.as_default():
        op = tf.constant(1.0, name="c").op
    ours = errors.InternalError(op.node_def, op, "broken")
    theirs = tf.errors.InternalError(op.node_def, op, "broken")

    def without_source_lines(error):
        # TensorFlow loses them: its temporary stack trace is gone before it is formatted.
        return [line for line in str(error).splitlines() if not line.startswith("    ")]

    assert without_source_lines(ours) == without_source_lines(theirs)
    assert str(ours).startswith("broken\n\nOriginal stack trace for 'c':\n")
    assert str(errors.InternalError(None, None, "broken")) == "broken"


def test_code_names_go_both_ways():
    for code in range(17):
        assert errors.code_from_name(errors.code_name(code)) == code
    assert errors.code_name(4) == "DEADLINE_EXCEEDED"
    assert errors.code_name(99) == errors.code_name(-1) == "UNKNOWN"
    with pytest.raises(ValueError, match="'TOO_LATE' is no error code; the codes are OK, CANC"):
        errors.code_from_name("TOO_LATE")
    with pytest.raises(KeyError):
        errors.exception_type_from_error_code(99)


def test_base_class_takes_any_code():
    error = errors.OpError(None, None, "odd", 11)
    assert (error.error_code, error.message, error.op, error.node_def) == (11, "odd", None, None)
    assert error.experimental_payloads == {}
    assert errors.OpError(None, None, "odd").error_code == errors.UNKNOWN
    assert errors.AbortedError(None, None, "m", {"k": b"v"}).experimental_payloads == {"k": b"v"}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("way", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy])
def test_they_pickle(code, way):
    frames = traceback.extract_stack(limit=1)
    op = SimpleNamespace(name="layer/mul", type="Mul", traceback=frames, graph=lambda: None)
    node = NodeDef(name="layer/mul", op="Mul")
    error = errors.exception_type_from_error_code(code)(node, op, "no")
    error.add_note("seen in step 7")
    back = way(error)
    assert type(back) is type(error)
    assert (back.message, back.error_code) == ("no", code)
    assert (back.op.name, back.op.type) == ("layer/mul", "Mul")
    assert back.node_def == node
    assert str(back) == str(error)
    assert back.__notes__ == ["seen in step 7"]
    assert back.run_metadata is None


def test_metadata_travels_with_a_pickled_error():
    from stepscope.metadata import RunMetadata

    error = errors.DeadlineExceededError(None, None, "late")
    assert error.run_metadata is None
    error.run_metadata = RunMetadata()
    error.run_metadata.step_stats.dev_stats.add(device="/cpu:0").node_stats.add(node_name="n")
    back = pickle.loads(pickle.dumps(error))
    assert list(back.run_metadata.ops.name) == ["n"]


def test_invalid_option_is_what_protobuf_would_raise_too():
    error = errors.InvalidOptionError("RunOptions has no field 'x'")
    for kind in (errors.InvalidArgumentError, ValueError, AttributeError):
        assert isinstance(error, kind)
    assert error.error_code == errors.INVALID_ARGUMENT
    assert errors.error_code_from_exception_type(type(error)) == errors.INVALID_ARGUMENT
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == "RunOptions has no field 'x'"


def test_file_errors_are_apart():
    assert issubclass(errors.UnreadableFileError, errors.StepscopeError)
    assert not issubclass(errors.StepscopeError, errors.OpError)
