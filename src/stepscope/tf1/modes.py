"""Graph mode is the only mode: what asks for it succeeds, what asks for another says why not."""

from typing import NoReturn

from stepscope.errors import UnimplementedError


def disable_eager_execution() -> None:
    """Nothing to do: this engine builds graphs and runs them in sessions."""


def disable_v2_behavior() -> None:
    """Nothing to do: the behaviour is TensorFlow 1's."""


def executing_eagerly() -> bool:
    """False."""
    return False


def enable_eager_execution(
    config: object = None,  # noqa: ARG001
    device_policy: object = None,  # noqa: ARG001
    execution_mode: object = None,  # noqa: ARG001
) -> NoReturn:
    """`UnimplementedError`."""
    _refuse("enable_eager_execution")


def enable_v2_behavior() -> NoReturn:
    """`UnimplementedError`."""
    _refuse("enable_v2_behavior")


def _refuse(asked: str) -> NoReturn:
    raise UnimplementedError.without_op(
        f"{asked}(): the embedded engine has no eager execution. Build a graph and run it with "
        "tf.Session().run(...), or run eager code on TensorFlow itself.",
    )
