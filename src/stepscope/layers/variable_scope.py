"""Variables by name: `get_variable` makes one or finds it again, inside `variable_scope`s.

Each graph has a store of the variables made this way. The current scope belongs to the thread
that entered it. A variable's name is that of the scopes, never made unique; the name scope a
variable scope opens for ops is.
"""

from __future__ import annotations

import enum
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.defaults import get_default_graph
from stepscope.graph.dtypes import DType, as_dtype, float32
from stepscope.graph.graph import GraphKeys, graph_of
from stepscope.graph.operation import Tensor
from stepscope.graph.scopes import Reentrant
from stepscope.graph.shapes import TensorShape
from stepscope.layers.initializers import GlorotUniform, Zeros
from stepscope.ops.state.variable import Variable


class _Reuse(enum.Enum):
    AUTO_REUSE = 1


AUTO_REUSE = _Reuse.AUTO_REUSE
"""As `reuse`: find the variable where there is one, make it where there is none."""


class VariableScope:
    """The names and defaults of the variables made inside it."""

    def __init__(
        self, name: str, reuse: Any = False, initializer: Any = None, dtype: Any = float32,
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


# Long: thirteen arguments of TensorFlow's, and what is undone has to be beside what is done.
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
) -> AbstractContextManager[VariableScope]:
    """Prefix the names of variables, and set how `get_variable` finds or makes them.

    A scope object is entered again under its own name: only what is given here takes the place of
    what it has. `default_name` is made unique, and used where no name is given. `reuse=True` finds
    variables, AUTO_REUSE finds or makes them. `custom_getter` is called in place of `get_variable`,
    which it gets as its first argument. The block may be entered any number of times, and then is
    the same variable scope.
    """
    del caching_device
    _refuse_partitions("variable_scope", partitioner)
    if name_or_scope is None and default_name is None:
        raise TypeError("If default_name is None then name_or_scope is required")
    first: list[VariableScope] = []

    @contextmanager
    def entered() -> Iterator[VariableScope]:
        graph = graph_of(values or ())
        with graph.as_default():
            store = _store()
            outer = store.scope
            again = isinstance(name_or_scope, VariableScope)
            if isinstance(name_or_scope, VariableScope):
                base, full = name_or_scope, name_or_scope.name
                own = full.rpartition("/")[2]
            else:
                base = outer
                own = name_or_scope if name_or_scope is not None else default_name or ""
                part = own if name_or_scope is not None or first else _unique(store, own)
                if first:
                    full = first[0].name
                else:
                    full = f"{outer.name}/{part}" if outer.name and part else part or outer.name
            scope = VariableScope(
                full,
                reuse or base.reuse,
                base.initializer if initializer is None else initializer,
                base.dtype if dtype is None else dtype,
                base.use_resource if use_resource is None else use_resource,
                first[0].original_name_scope if first else base.original_name_scope,
                base.regularizer if regularizer is None else regularizer,
                base.constraint if constraint is None else constraint,
                _both_getters(base.custom_getter, custom_getter),
            )
            store.scope = scope
            store.opened[full] += 1
            before = Counter(store.opened)
            try:
                with graph.name_scope(_name_scope_of(graph, own, auxiliary_name_scope)) as prefix:
                    if not again and not first:
                        scope.original_name_scope = prefix
                    first[:] = first or [scope]
                    yield scope
            finally:
                store.scope = outer
                # Inner scopes are counted anew when this one is opened by its name once more;
                # whoever entered it by the object leaves the counts as they were.
                store.opened = (
                    before
                    if again
                    else Counter(
                        {k: n for k, n in store.opened.items() if not k.startswith(f"{full}/")}
                    )
                )

    return Reentrant(entered)


def _name_scope_of(graph: Any, own: str, opens: bool) -> str:
    """What `graph.name_scope` takes for a new scope, or for the one that is there already."""
    if own and opens:
        return own
    current = graph.get_name_scope()
    return f"{current}/" if current else ""


def _refuse_partitions(what: str, partitioner: Any) -> None:
    if partitioner is not None:
        raise NotImplementedError(f"{what}: partitioned variables are not supported.")


def _both_getters(outer: Any, inner: Any) -> Any:
    """The inner scope's getter around the outer's."""
    if outer is None or inner is None:
        return inner or outer
    return lambda getter, *args, **more: inner(partial(outer, getter), *args, **more)


def _unique(store: _Store, default_name: str) -> str:
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
    _refuse_partitions("get_variable", partitioner)
    scope = _store().scope
    full = f"{scope.name}/{name}" if scope.name else name
    if dtype is not None and _is_value(initializer):
        _check_dtype(initializer, as_dtype(dtype).base_dtype)
    arguments = {
        "name": full,
        "shape": shape,
        "dtype": scope.dtype if dtype is None else as_dtype(dtype).base_dtype,
        "initializer": scope.initializer if initializer is None else initializer,
        "regularizer": scope.regularizer if regularizer is None else regularizer,
        "reuse": scope.reuse,
        "trainable": True if trainable is None else trainable,
        "collections": collections,
        "caching_device": caching_device,
        "partitioner": partitioner,
        "validate_shape": validate_shape,
        "use_resource": scope.use_resource if use_resource is None else use_resource,
        "constraint": scope.constraint if constraint is None else constraint,
        "synchronization": synchronization,
        "aggregation": aggregation,
    }
    getter = scope.custom_getter if custom_getter is None else custom_getter
    if getter is None:
        return _get_variable(**arguments)
    if not _takes(getter, "constraint"):
        del arguments["constraint"]
    return getter(_get_variable, **arguments)


def _takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a function has a parameter of that name, or takes any."""
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == name or p.kind is p.VAR_KEYWORD for p in parameters)


def _check_dtype(value: Any, dtype: DType) -> None:
    found = convert_to_tensor(value).dtype.base_dtype
    if found is not dtype:
        raise ValueError(
            f"Initializer type '{found!r}' and explicit dtype '{dtype!r}' don't match."
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
    name: str,
    shape: Any = None,
    dtype: Any = float32,
    initializer: Any = None,
    regularizer: Callable[[Tensor], Tensor | None] | None = None,
    reuse: Any = None,
    trainable: bool | None = None,
    collections: Collection[str] | None = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    constraint: Callable[[Tensor], Tensor] | None = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Variable:
    """By its full name; this is what a custom getter gets."""
    del caching_device, synchronization, aggregation
    _refuse_partitions("get_variable", partitioner)
    store = _store()
    wanted = as_dtype(dtype).base_dtype
    found = store.variables.get(name)
    if found is not None:
        return _found(found, reuse, shape, wanted)
    if reuse is True:
        raise ValueError(
            f"Variable {name} does not exist, or was not created with tf.get_variable(). "
            "Did you mean to set reuse=tf.AUTO_REUSE in VarScope?"
        )
    value, of_dtype = _initial_value(name, initializer, shape, wanted)
    with get_default_graph().name_scope(None):
        variable = Variable(
            value,
            trainable=trainable,
            collections=collections,
            validate_shape=validate_shape,
            name=name,
            dtype=of_dtype,
            use_resource=use_resource,
            constraint=constraint,
        )
    store.variables[name] = variable
    if regularizer is not None:
        graph = get_default_graph()
        with graph.name_scope(f"{name}/Regularizer/"):
            loss = regularizer(variable.value())
        if loss is not None:
            graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return variable


def _found(found: Variable, reuse: Any, shape: Any, dtype: DType) -> Variable:
    name = found.op.name
    if reuse is False:
        raise ValueError(
            f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or "
            f"reuse=tf.AUTO_REUSE in VarScope? Originally defined at: {found.op.source}"
        )
    if shape is not None and not TensorShape(shape).is_compatible_with(found.shape):
        raise ValueError(
            f"Trying to share variable {name}, but specified shape {TensorShape(shape)} and found "
            f"shape {found.shape}."
        )
    if dtype is not found.dtype.base_dtype:
        raise ValueError(
            f"Trying to share variable {name}, but specified dtype {dtype.name} and found dtype "
            f"{found.dtype.base_dtype.name}."
        )
    return found


def _is_value(initializer: Any) -> bool:
    return initializer is not None and not callable(initializer)


def _initial_value(
    name: str, initializer: Any, shape: Any, dtype: DType
) -> tuple[Any, DType | None]:
    """What a new variable starts with, and its dtype; None where the value decides that."""
    if _is_value(initializer):
        if shape is not None:
            raise ValueError("If initializer is a constant, do not specify shape.")
        return initializer, None
    if initializer is None and shape is None:
        raise ValueError(
            f"Variable {name} did not get an initializer, so its `shape` argument must be "
            "specified."
        )
    if isinstance(initializer, type):
        initializer = initializer()
    make = initializer or (GlorotUniform() if dtype.is_floating else Zeros())
    axes = TensorShape(shape)
    if axes.is_fully_defined():
        return lambda: make(axes.as_list(), dtype=dtype), dtype
    if _needs_no_arguments(make):
        return make, None
    raise ValueError(
        f"Shape of a new variable ({name}) must be fully defined, but instead was {axes}. Without "
        "one its initializer is a value, or can be called without arguments."
    )


def _needs_no_arguments(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True
