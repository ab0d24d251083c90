"""What the session hook and the Keras callback refuse before a loop begins."""

import pytest

import stepscope
from stepscope.errors import InvalidArgumentError, UnimplementedError

WRONG = [
    ({"schedule": 5}, TypeError, "expected a schedule"),
    ({"schedule": "5:1"}, InvalidArgumentError, "'5:1'"),
    ({"schedule": "1", "options": {"trace_level": 3}}, TypeError, "expected a RunOptions"),
    ({"schedule": "1", "callback": 3}, TypeError, "callback takes a function of"),
]


@pytest.fixture(params=["hooks.TraceHook", "keras.TraceCallback"])
def recorder(request, tensorflow):
    """The class of each recorder of loops."""
    from stepscope.adapters.tensorflow.training import keras
    from stepscope.adapters.tensorflow.training import session_hook as hooks

    module, _, name = request.param.partition(".")
    return getattr({"hooks": hooks, "keras": keras}[module], name)


@pytest.mark.parametrize(("arguments", "error", "message"), WRONG)
def test_wrong_arguments(recorder, arguments, error, message):
    with pytest.raises(error, match=message):
        recorder(**arguments)


def test_an_option_that_the_engine_does_not_have(recorder):
    options = stepscope.RunOptions(debug_options=stepscope.DebugOptions(global_step=3))
    if recorder.__name__ == "TraceHook":
        recorder("1", options=options)
        return
    with pytest.raises(UnimplementedError, match=r"debug_options.global_step.*tensorflow eager"):
        recorder("1", options=options)
