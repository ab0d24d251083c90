"""Functions that make their variables when first called, and use the same ones from then on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from stepscope.layers.variable_scope import variable_scope

__all__ = ["make_template"]


def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Any = None,
    **kwargs: Any,
) -> Template:
    """A function in a variable scope of its own, whose variables all its calls share.

    >>> import stepscope.tf1 as tf
    >>> def scaled(x):
    ...     return x * tf.get_variable("scale", initializer=2.0)
    >>> with tf.Graph().as_default():
    ...     shared = tf.make_template("shared", scaled)
    ...     y = shared(shared(tf.constant(1.0)))
    ...     print([v.op.name for v in tf.global_variables()])
    ['shared/scale']
    """
    function = partial(func_, **kwargs) if kwargs else func_
    return Template(name_, function, create_scope_now_, unique_name_, custom_getter_)


class Template:
    """What `make_template` gives."""

    def __init__(
        self, name: str, function: Callable[..., Any], now: bool, unique: str | None, getter: Any
    ) -> None:
        if not name:
            raise ValueError("A template needs a name.")
        self._name, self._function, self._unique, self._getter = name, function, unique, getter
        self._scope: Any = None
        self._called = False
        if now:
            self._make_scope()

    def _make_scope(self) -> None:
        with variable_scope(self._unique, self._name, custom_getter=self._getter) as scope:
            self._scope = scope

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._scope is None:
            self._make_scope()
        with variable_scope(self._scope, reuse=True if self._called else None):
            result = self._function(*args, **kwargs)
        self._called = True
        return result

    @property
    def name(self) -> str:
        return self._name

    @property
    def var_scope(self) -> Any:
        """The variable scope; None before the first call."""
        return self._scope

    variable_scope = var_scope

    @property
    def variables(self) -> list[Any]:
        return self._scope.global_variables() if self._scope is not None else []

    @property
    def trainable_variables(self) -> list[Any]:
        return self._scope.trainable_variables() if self._scope is not None else []

    @property
    def variable_scope_name(self) -> str | None:
        return None if self._scope is None else self._scope.name
