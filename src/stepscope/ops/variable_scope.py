"""Variables by name: `get_variable` makes one or finds it again, inside `variable_scope`s.

Each graph has a store of the variables made this way. The current scope belongs to the thread
that entered it. A variable's name is that of the scopes, never made unique; the name scope a
variable scope opens for ops is.
"""

from __future__ import annotations

import enum
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from stepscope.graph.defaults import get_default_graph
from stepscope.graph.dtypes import DType, as_dtype, float32
from stepscope.graph.graph import GraphKeys, graph_of
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.ops.initializers import GlorotUniform, Zeros
from stepscope.ops.variable import Variable


class _Reuse(enum.Enum):
    AUTO_REUSE = 1


AUTO_REUSE = _Reuse.AUTO_REUSE
"""As `reuse`: find the variable where there is one, make it where there is none."""


class VariableScope:
    """The names and defaults of the variables made inside it."""

    def __init__(
        self, name: str, reuse: Any = None, initializer: Any = None, dtype: Any = float32,
        use_resource: bool | None = None, original_name_scope: str = "",
        regularizer: Any = None, constraint: Any = None, custom_getter: Any = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.reuse = reuse
        self.initializer = initializer
        self.regularizer = regularizer
        self.constraint = constraint
        self.custom_getter = custom_getter
        self.dtype = as_dtype(dtype)
        self.use_resource = use_resource
        self.original_name_scope = original_name_scope

    def reuse_variables(self) -> None:
        """From now on variables are found in this scope, never made."""
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        self.initializer = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        self.regularizer = regularizer

    def set_use_resource(self, use_resource: bool | None) -> None:
        self.use_resource = use_resource

    def global_variables(self) -> list[Any]:
        return self._collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> list[Any]:
        return self._collection(GraphKeys.LOCAL_VARIABLES)

    def trainable_variables(self) -> list[Any]:
        return self._collection(GraphKeys.TRAINABLE_VARIABLES)

    def get_collection(self, name: str) -> list[Any]:
        """What of a collection belongs to this scope, by name."""
        return self._collection(name)

    def _collection(self, key: str) -> list[Any]:
        return get_default_graph().get_collection(key, f"{self.name}/" if self.name else None)

    def __repr__(self) -> str:
        return f"<stepscope.VariableScope {self.name!r} reuse={self.reuse}>"


class _Store(threading.local):
    """A graph's variables by name (shared by all threads), and each thread's current scope."""

    def __init__(self, variables: dict[str, Variable]) -> None:
        self.variables = variables
        self.scope = VariableScope("")
        self.opened: Counter[str] = Counter()


def _store() -> _Store:
    kept = vars(get_default_graph())
    store: _Store = kept.get("_variable_store") or kept.setdefault("_variable_store", _Store({}))
    return store


def get_variable_scope() -> VariableScope:
    """The innermost variable scope of this thread."""
    return _store().scope


@contextmanager
def variable_scope(
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    values: Sequence[Any] | None = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Callable[..., Any] | None = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[VariableScope]:
    """Prefix the names of variables, and set how `get_variable` finds or makes them.

    A scope object is entered again under its own name. `default_name` is made unique, and used
    where no name is given. `reuse=True` finds variables, AUTO_REUSE finds or makes them.
    `custom_getter` is called in place of `get_variable`, which it gets as its first argument.
    """
    del caching_device
    _refuse_partitions("variable_scope", partitioner)
    graph = graph_of(values or ())
    with graph.as_default():
        store = _store()
        outer, opened = store.scope, store.opened
        if isinstance(name_or_scope, VariableScope):
            base, full = name_or_scope, name_or_scope.name
            own = full.rpartition("/")[2]
        else:
            own = name_or_scope if name_or_scope is not None else _unique(store, default_name)
            base, full = outer, f"{outer.name}/{own}" if outer.name and own else own or outer.name
        scope = VariableScope(
            full,
            reuse or base.reuse or outer.reuse,
            base.initializer if initializer is None else initializer,
            base.dtype if dtype is None else dtype,
            base.use_resource if use_resource is None else use_resource,
            base.original_name_scope,
            base.regularizer if regularizer is None else regularizer,
            base.constraint if constraint is None else constraint,
            _both_getters(base.custom_getter, custom_getter),
        )
        store.scope = scope
        opened[full] += 1
        try:
            # A scope that is entered again keeps the name scope it had first.
            again = isinstance(name_or_scope, VariableScope)
            if own and auxiliary_name_scope:
                with graph.name_scope(own) as name_scope:
                    scope.original_name_scope = (
                        base.original_name_scope if again else name_scope or ""
                    )
                    yield scope
            else:
                if not again:
                    current = graph.get_name_scope()
                    scope.original_name_scope = f"{current}/" if current else ""
                yield scope
        finally:
            store.scope = outer
            # Inner scopes start counting anew when this one is entered again.
            for key in [k for k in opened if k.startswith(f"{full}/")]:
                del opened[key]


def _refuse_partitions(what: str, partitioner: Any) -> None:
    if partitioner is not None:
        raise NotImplementedError(f"{what}: partitioned variables are not supported.")


def _both_getters(outer: Any, inner: Any) -> Any:
    """The inner scope's getter around the outer's."""
    if outer is None or inner is None:
        return inner or outer
    return lambda getter, *args, **more: inner(partial(outer, getter), *args, **more)


def _unique(store: _Store, default_name: str | None) -> str:
    if default_name is None:
        raise TypeError("If default_name is None then name_or_scope is required")
    prefix = f"{store.scope.name}/" if store.scope.name else ""
    candidate, number = default_name, 0
    while store.opened[prefix + candidate]:
        number += 1
        candidate = f"{default_name}_{number}"
    return candidate


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Callable[[Tensor], Tensor | None] | None = None,
    trainable: bool | None = None,
    collections: Collection[str] | None = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Callable[..., Any] | None = None,
    constraint: Callable[[Tensor], Tensor] | None = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Any:
    """The variable of that name in the current variable scope: made, or found again.

    `initializer` is a tensor or value, or is called with shape and dtype; without one it is the
    scope's, or Glorot's for floats and zeros for other types. What `regularizer` (or the scope's)
    makes of a new variable joins the regularization losses.
    """
    del caching_device, synchronization, aggregation
    _refuse_partitions("get_variable", partitioner)
    scope = _store().scope
    full = f"{scope.name}/{name}" if scope.name else name
    getter = _both_getters(scope.custom_getter, custom_getter)
    make = _get_variable if getter is None else partial(getter, _get_variable)
    return make(
        full,
        shape=shape,
        dtype=dtype,
        initializer=scope.initializer if initializer is None else initializer,
        regularizer=scope.regularizer if regularizer is None else regularizer,
        trainable=trainable,
        collections=collections,
        validate_shape=validate_shape,
        use_resource=scope.use_resource if use_resource is None else use_resource,
        constraint=scope.constraint if constraint is None else constraint,
    )


def get_local_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Callable[[Tensor], Tensor | None] | None = None,
    trainable: bool = False,
    collections: Collection[str] | None = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Callable[..., Any] | None = None,
    constraint: Callable[[Tensor], Tensor] | None = None,
) -> Any:
    """`get_variable` for the collection of local variables, not trained."""
    del trainable
    return get_variable(
        name, shape, dtype, initializer, regularizer, False,
        [*(collections or []), GraphKeys.LOCAL_VARIABLES], caching_device, partitioner,
        validate_shape, use_resource, custom_getter, constraint,
    )  # fmt: skip


def _get_variable(
    full: str,
    *,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Callable[[Tensor], Tensor | None] | None = None,
    trainable: bool | None = None,
    collections: Collection[str] | None = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    constraint: Callable[[Tensor], Tensor] | None = None,
) -> Variable:
    """By its full name; this is what a custom getter gets."""
    store = _store()
    scope = store.scope
    wanted = scope.dtype if dtype is None else as_dtype(dtype).base_dtype
    found = store.variables.get(full)
    if found is not None:
        return _found(found, scope, shape, dtype if dtype is None else wanted)
    if scope.reuse is True:
        raise ValueError(
            f"Variable {full} does not exist, or was not created with tf.get_variable(). "
            "Did you mean to set reuse=tf.AUTO_REUSE in VarScope?"
        )
    with get_default_graph().name_scope(None):
        variable = Variable(
            _initial_value(full, initializer, shape, wanted),
            trainable=trainable,
            collections=collections,
            validate_shape=validate_shape,
            name=full,
            dtype=None if dtype is None and _is_value(initializer) else wanted,
            use_resource=use_resource,
            constraint=constraint,
        )
    store.variables[full] = variable
    if regularizer is not None:
        graph = get_default_graph()
        with graph.name_scope(f"{full}/Regularizer/"):
            loss = regularizer(variable.value())
        if loss is not None:
            graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return variable


def _found(found: Variable, scope: VariableScope, shape: Any, dtype: DType | None) -> Variable:
    name = found.op.name
    if not scope.reuse:
        raise ValueError(
            f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or "
            f"reuse=tf.AUTO_REUSE in VarScope? Originally defined at: {found.op.source}"
        )
    if shape is not None and not TensorShape(shape).is_compatible_with(found.shape):
        raise ValueError(
            f"Trying to share variable {name}, but specified shape {TensorShape(shape)} and found "
            f"shape {found.shape}."
        )
    if dtype is not None and dtype is not found.dtype.base_dtype:
        raise ValueError(
            f"Trying to share variable {name}, but specified dtype {dtype.name} and found dtype "
            f"{found.dtype.base_dtype.name}."
        )
    return found


def _is_value(initializer: Any) -> bool:
    return initializer is not None and not callable(initializer)


def _initial_value(name: str, initializer: Any, shape: Any, dtype: DType) -> Any:
    if _is_value(initializer):
        if shape is not None:
            raise ValueError("If initializer is a constant, do not specify shape.")
        return initializer
    if shape is None:
        raise ValueError(
            f"Shape of a new variable ({name}) must be fully defined, but instead was <unknown>."
        )
    if isinstance(initializer, type):
        initializer = initializer()
    make = initializer or (GlorotUniform() if dtype.is_floating else Zeros())
    axes = TensorShape(shape)
    if not axes.is_fully_defined():
        raise ValueError(
            f"Shape of a new variable ({name}) must be fully defined, but instead was {axes}."
        )
    return lambda: make(axes.as_list(), dtype=dtype)
