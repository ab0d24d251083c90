"""`Variable`: a tensor that keeps its value between runs, as TensorFlow 1 has it.

The nodes a variable makes, and their names, are TensorFlow's: `v` (VariableV2), `v/initial_value`,
`v/Assign` and `v/read`; with `use_resource=True` `v` (VarHandleOp), `v/Assign` and a
`ReadVariableOp` per use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NoReturn

from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.defaults import get_default_graph
from stepscope.graph.dtypes import DType, as_dtype
from stepscope.graph.graph import Graph, GraphKeys, name_scope
from stepscope.graph.operation import Operation, Tensor, operator_named
from stepscope.graph.shapes import UNKNOWN, TensorShape
from stepscope.ops.arrays.conversion import identity
from stepscope.ops.state import variable_ops

__all__ = [
    "Variable", "assign", "assign_add", "assign_sub", "is_variable_initialized", "scatter_add",
    "scatter_sub", "scatter_update", "variable_ops",
]  # fmt: skip


class Variable:
    """A value that a session keeps from run to run.

    It must be initialised in each session (`sess.run(v.initializer)`) before it is read. Used as
    a tensor it stands for its current value.
    """

    __array_priority__ = 100
    __hash__ = object.__hash__

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Collection[str] | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: str | None = None,
        constraint: Callable[[Tensor], Tensor] | None = None,
        use_resource: bool | None = None,
        shape: Any = None,
    ) -> None:
        """Make the variable's nodes in the default graph.

        `initial_value` is a value, a tensor, or a function without arguments that makes one.
        `collections` are the graph collections it joins (the global variables by default, and the
        trainable ones unless `trainable=False`).
        """
        if initial_value is None or variable_def is not None:
            raise ValueError(
                "A Variable needs an initial_value: a value, a tensor, or a function that returns "
                "one."
            )
        if collections is not None and not isinstance(collections, (list, tuple, set)):
            raise ValueError(
                "collections argument to Variable constructor must be a list, tuple, or set. "
                f"Got {collections!r} of type {type(collections).__name__}"
            )
        del caching_device, expected_shape, import_scope
        self._trainable = trainable is None or bool(trainable)
        self._constraint = constraint
        self._is_resource = bool(use_resource)
        self._graph = get_default_graph()
        wanted = None if dtype is None else as_dtype(dtype).base_dtype
        with self._graph.control_dependencies(None), name_scope(name, "Variable") as scope:
            self._initial_value = self._make_initial_value(initial_value, wanted, scope)
            declared = self._declared_shape(shape, validate_shape)
            if self._is_resource:
                self._make_resource(scope, declared)
            else:
                self._make_reference(scope, declared, validate_shape)
        keys = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
        if self._trainable and GraphKeys.TRAINABLE_VARIABLES not in keys:
            keys.append(GraphKeys.TRAINABLE_VARIABLES)
        self._graph.add_to_collections(keys, self)

    @classmethod
    def _around(
        cls, variable: Tensor, initializer: Operation, initial_value: Tensor, snapshot: Tensor,
        trainable: bool,
    ) -> Variable:  # fmt: skip
        """A variable whose nodes are in the graph already; it joins no collection."""
        self = cls.__new__(cls)
        self._trainable, self._constraint = trainable, None
        self._graph, self._op, self._variable = variable.graph, variable.op, variable
        self._is_resource = variable.op.type == "VarHandleOp"
        self._initializer, self._initial_value = initializer, initial_value
        self._snapshot = snapshot
        if self._is_resource:
            self._declared = variable.op.get_attr("shape")
        return self

    def _make_initial_value(self, value: Any, dtype: DType | None, scope: str) -> Tensor:
        graph = self._graph
        if not callable(value) and not self._is_resource:
            return convert_to_tensor(value, dtype, "initial_value")
        made_before = graph.version
        with graph.name_scope("Initializer"), graph.device(None):
            result = convert_to_tensor(value() if callable(value) else value, dtype,
                                       "initial_value")  # fmt: skip
        # The variable does not exist yet; colocation goes by its name.
        for op in graph.get_operations()[made_before:]:
            if op.name.startswith(scope) and "_class" not in op.attrs:
                op._set_attr("_class", [b"loc:@" + scope[:-1].encode()])
        return result

    def _declared_shape(self, shape: Any, validate_shape: bool) -> TensorShape:
        if shape is not None:
            return TensorShape(shape)
        if not validate_shape:
            return UNKNOWN
        found = self._initial_value.shape
        if not found.is_fully_defined():
            raise ValueError(
                f"initial_value must have a shape specified: {self._initial_value} has shape "
                f"{found}. Pass validate_shape=False if the shape is only known when it runs."
            )
        return found

    def _make_reference(self, scope: str, shape: TensorShape, validate_shape: bool) -> None:
        graph, dtype = self._graph, self._initial_value.dtype.base_dtype
        self._op = graph.create_op("VariableV2", [], {"shape": shape, "dtype": dtype}, scope)
        self._variable = self._op.values()[0]
        self._initializer: Operation = assign(
            self._variable, self._initial_value, validate_shape, True, "Assign"
        ).op
        with graph.colocate_with(self._op):
            self._snapshot = identity(self._variable, name="read")

    def _make_resource(self, scope: str, shape: TensorShape) -> None:
        graph, dtype = self._graph, self._initial_value.dtype.base_dtype
        attrs = {"shape": shape, "dtype": dtype, "shared_name": scope[:-1], "debug_name": scope}
        self._op = graph.create_op("VarHandleOp", [], attrs, scope)
        self._variable = self._op.values()[0]
        self._declared = shape
        with graph.name_scope("IsInitialized"):
            self._is_initialized = apply_op("VarIsInitializedOp", self._variable).values()[0]
        self._initializer = apply_op(
            "AssignVariableOp", self._variable, self._initial_value, name="Assign"
        )
        with graph.name_scope("Read"):
            self._snapshot = self._read()

    def _read(self) -> Tensor:
        value = apply_op("ReadVariableOp", self._variable, dtype=self._initial_value.dtype)
        tensor = value.values()[0]
        if tensor.shape != self._declared:
            tensor.set_shape(self._declared)
        return tensor

    # -- what it is ----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._variable.name

    @property
    def dtype(self) -> DType:
        dtype = self._initial_value.dtype.base_dtype
        return dtype if self._is_resource else dtype.as_ref

    @property
    def shape(self) -> TensorShape:
        return self._declared if self._is_resource else self._variable.shape

    def get_shape(self) -> TensorShape:
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Add what is known about the shape of the value."""
        if self._is_resource:
            self._declared = self._declared.merge_with(shape)
        else:
            self._variable.set_shape(shape)
            self._snapshot.set_shape(shape)

    @property
    def op(self) -> Operation:
        return self._op

    @property
    def graph(self) -> Graph:
        return self._graph

    @property
    def device(self) -> str:
        return self._op.device

    @property
    def trainable(self) -> bool:
        return self._trainable

    @property
    def constraint(self) -> Callable[[Tensor], Tensor] | None:
        return self._constraint

    @property
    def initializer(self) -> Operation:
        """The op that gives the variable its initial value."""
        return self._initializer

    @property
    def initial_value(self) -> Tensor:
        """The tensor the initializer assigns."""
        return self._initial_value

    @property
    def handle(self) -> Tensor:
        """The resource of a variable made with `use_resource=True`."""
        if not self._is_resource:
            raise AttributeError(f"{self!r} is a reference variable and has no handle.")
        return self._variable

    # -- its value -----------------------------------------------------------------------------

    def value(self) -> Tensor:
        """The value as the graph's other ops see it, without a node of its own where possible."""
        return self._read() if self._is_resource else self._snapshot

    def read_value(self) -> Tensor:
        """The value, read anew by a node made here (and after the control dependencies here)."""
        if self._is_resource:
            with name_scope("Read"):
                value = self._read()
            return identity(value)
        return identity(self._variable, name="read")

    def initialized_value(self) -> Tensor:
        """The value to initialise another variable from: this one's initial value."""
        return self._initial_value

    def is_initialized(self, name: str | None = None) -> Tensor:
        return is_variable_initialized(self, name)

    def eval(self, session: Any = None) -> Any:
        """The current value in the given or the default session."""
        target = self._snapshot if self._is_resource else self._variable
        return target.eval(session=session)

    def load(self, value: Any, session: Any = None) -> None:
        """Assign a value in the given or the default session, without a new node."""
        from stepscope.graph.operation import session_for

        target = session_for(self.name, "load()", session)
        target.run(self._initializer, {self._initializer.inputs[1]: value})

    def assign(
        self, value: Any, use_locking: bool = False, name: str | None = None,
        read_value: bool = True,
    ) -> Any:  # fmt: skip
        """A new value; returns the variable after it, or the op with `read_value=False`."""
        if self._is_resource:
            return self._update_resource(
                "AssignVariableOp", value, name, read_value, validate_shape=True
            )
        result = assign(self._variable, value, None, use_locking, name)
        return result if read_value else result.op

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None,
        read_value: bool = True,
    ) -> Any:  # fmt: skip
        """Add to the value; returns the variable after it, or the op with `read_value=False`."""
        if self._is_resource:
            return self._update_resource("AssignAddVariableOp", delta, name, read_value)
        result = assign_add(self._variable, delta, use_locking, name)
        return result if read_value else result.op

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None,
        read_value: bool = True,
    ) -> Any:  # fmt: skip
        """Subtract from the value; returns the variable after it, or the op."""
        if self._is_resource:
            return self._update_resource("AssignSubVariableOp", delta, name, read_value)
        result = assign_sub(self._variable, delta, use_locking, name)
        return result if read_value else result.op

    def count_up_to(self, limit: int) -> Tensor:
        """The value before it is counted up by one; OutOfRangeError once it is `limit`."""
        from stepscope.ops.state.counting import count_up_to

        return count_up_to(self, limit)

    def _update_resource(
        self, op_type: str, value: Any, name: str | None, read_value: bool, **attrs: Any
    ) -> Any:
        tensor = convert_to_tensor(value, self.dtype, graph=self._graph)
        self.shape.assert_is_compatible_with(tensor.shape)
        op = apply_op(op_type, self._variable, tensor, name=name, **attrs)
        if not read_value:
            return op
        with self._graph.control_dependencies([op]):
            return self._read()

    # -- as a tensor ---------------------------------------------------------------------------

    def _as_tensor(self, dtype: DType | None = None) -> Tensor:
        if dtype is not None and not dtype.is_compatible_with(self.dtype.base_dtype):
            raise ValueError(
                f"Incompatible type conversion requested to type {dtype.name!r} for variable of "
                f"type {self.dtype.name!r}: {self!r}"
            )
        return self.value()

    def _as_ref(self) -> Tensor:
        """The tensor that ops with a reference input take."""
        return self._variable

    def _gradient_source(self) -> Tensor:
        """What gradients are taken with respect to: all reads go back to it."""
        return self._variable

    def _as_graph_element(self) -> Tensor:
        return self._snapshot if self._is_resource else self._variable

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self!r} is not iterable.")

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} has no truth value; use `is not None` to test for it, or run it."
        )

    def __repr__(self) -> str:
        shape, dtype = self.shape, self.dtype.name
        return f"<stepscope.Variable {self.name!r} shape={shape} dtype={dtype}>"


def _forward(operator: str) -> Callable[..., Any]:
    def apply(self: Variable, *args: Any) -> Any:
        return operator_named(operator)(self._as_tensor(), *args)

    apply.__name__ = operator
    return apply


for _name in (
    "add", "radd", "sub", "rsub", "mul", "rmul", "div", "rdiv", "truediv", "rtruediv", "floordiv",
    "rfloordiv", "mod", "rmod", "pow", "rpow", "matmul", "rmatmul", "neg", "abs", "invert", "and",
    "rand", "or", "ror", "xor", "rxor", "lt", "le", "gt", "ge", "getitem",
):  # fmt: skip
    setattr(Variable, f"__{_name}__", _forward(f"__{_name}__"))


# -- assignment as functions -------------------------------------------------------------------


def reference_of(ref: Any) -> Tensor | None:
    """The reference tensor of a variable or of an assignment's result; None for resources."""
    if isinstance(ref, Variable):
        return None if ref._is_resource else ref._as_ref()
    if isinstance(ref, Tensor) and ref.dtype._is_ref_dtype:
        return ref
    raise TypeError(f"Expected a variable to change, found {ref!r}.")


def applied(op_type: str, ref: Tensor, *args: Any, name: str | None, **attrs: Any) -> Tensor:
    """A node that changes or reads a reference, where the reference is."""
    groups = ref.op.colocation_groups()
    op = apply_op(op_type, ref, *args, name=name, _class=groups, **attrs)
    if op.device != ref.op.device:
        op._set_device(ref.op.device)
    return op.values()[0]


def assign(
    ref: Any, value: Any, validate_shape: bool | None = None, use_locking: bool | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Give the variable a new value; returns the variable's tensor after that."""
    reference = reference_of(ref)
    if reference is None:
        return ref.assign(value, name=name)
    validate = validate_shape is None or validate_shape
    locking = use_locking is None or use_locking
    return applied(
        "Assign", reference, value, name=name, validate_shape=validate, use_locking=locking
    )


def assign_add(
    ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """Add to the variable; returns the variable's tensor after that."""
    reference = reference_of(ref)
    if reference is None:
        return ref.assign_add(value, name=name)
    return applied("AssignAdd", reference, value, name=name, use_locking=bool(use_locking))


def assign_sub(
    ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """Subtract from the variable; returns the variable's tensor after that."""
    reference = reference_of(ref)
    if reference is None:
        return ref.assign_sub(value, name=name)
    return applied("AssignSub", reference, value, name=name, use_locking=bool(use_locking))


def _scatter(
    op_type: str, ref: Any, indices: Any, updates: Any, use_locking: bool, name: str | None
) -> Tensor:
    reference = reference_of(ref)
    if reference is None:
        raise TypeError(f"{op_type} takes a reference variable, not {ref!r}.")
    return applied(op_type, reference, indices, updates, name=name, use_locking=use_locking)


def scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """Replace the rows at `indices`."""
    return _scatter("ScatterUpdate", ref, indices, updates, use_locking, name)


def scatter_add(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Add to the rows at `indices`; a repeated index is added to each time."""
    return _scatter("ScatterAdd", ref, indices, updates, use_locking, name)


def scatter_sub(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Subtract from the rows at `indices`; a repeated index is subtracted from each time."""
    return _scatter("ScatterSub", ref, indices, updates, use_locking, name)


def is_variable_initialized(variable: Any, name: str | None = None) -> Tensor:
    """Whether the variable has a value in the session that asks."""
    reference = reference_of(variable)
    if reference is None:
        return apply_op("VarIsInitializedOp", variable.handle, name=name).values()[0]
    return applied("IsVariableInitialized", reference, name=name)
