"""The nodes of a `Saver`, with TensorFlow's names, under `save/`.

A `SaveV2` takes all variables; a `RestoreV2` gives their values, and one node per variable assigns
it. Lookup tables, and whatever else is a `SaveableObject`, have several tensors each. Of a sharded
saver there is a `SaveV2` per device, and a node that makes one checkpoint of what they write. A
graph with these nodes runs on TensorFlow, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stepscope._messages import SaverDef
from stepscope.graph import GraphKeys, get_collection
from stepscope.graph.build import apply_op, constant_op
from stepscope.graph.device import DeviceSpec, canonical
from stepscope.graph.graph import control_dependencies, device, name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.ops.arrays.constants import placeholder_with_default
from stepscope.ops.arrays.conversion import identity
from stepscope.ops.arrays.shaping import reshape, shape
from stepscope.ops.arrays.strings import string_join
from stepscope.ops.flow.ordering import group, with_dependencies
from stepscope.ops.io.checkpoint_ops import regex_full_match, restore_v2, save_v2
from stepscope.ops.math.comparison import where
from stepscope.ops.state.saveables import SaveableObject, SaveSpec
from stepscope.ops.state.variable import Variable, assign
from stepscope.programs import log

_Named = list[tuple[str, Variable | SaveableObject]]


class BaseSaverBuilder:
    """Where programs find what to derive from to have an object of theirs in checkpoints."""

    SaveSpec = SaveSpec
    SaveableObject = SaveableObject


def saveable_variables() -> list[Any]:
    """What a saver saves that is not told."""
    return [
        *get_collection(GraphKeys.GLOBAL_VARIABLES),
        *get_collection(GraphKeys.SAVEABLE_OBJECTS),
    ]


def add_saver_nodes(
    wanted: Any, reshaped: bool, sharded: bool, name: str | None, filename: str
) -> Any:
    """Add the nodes that save and restore these variables; a `SaverDef` with their names."""
    named = _named(wanted)
    with name_scope(name, "save", _saved(named)[2]):
        path = placeholder_with_default(filename, shape=(), name="filename")
        path = placeholder_with_default(path, shape=(), name="Const")
        if sharded:
            groups = _by_device(named)
            saved = _sharded_save(path, groups)
            restored = _sharded_restore(path, groups, reshaped)
        else:
            saved = _save(path, named)
            restored = _restore(path, named, reshaped, "restore_all")
    return SaverDef(
        filename_tensor_name=path.name,
        save_tensor_name=saved.name,
        restore_op_name=restored.name,
        sharded=sharded,
        version=SaverDef.V2,
    )


def _named(wanted: Any) -> _Named:
    """What is saved, by the names it has in checkpoints, in their order."""
    if isinstance(wanted, Mapping):
        found = dict(wanted)
    elif isinstance(wanted, (list, tuple, set)):
        found = {}
        for variable in _flattened(wanted):
            _refuse_others(variable)
            own = variable.name if isinstance(variable, SaveableObject) else variable.op.name
            if isinstance(found.get(own), SaveableObject):
                log.warning(
                    "Checkpoints have two objects of the name %r: only the last one is saved and "
                    "restored. Give each a name of its own.", own,
                )  # fmt: skip
            elif own in found:
                raise ValueError(f"At least two variables have the same name: {own}")
            found[own] = variable
    else:
        raise TypeError(f"Variables to save should be passed in a dict or a list. Got {wanted}")
    for name, variable in found.items():
        if not isinstance(name, str):
            raise TypeError(
                "names_to_saveables must be a dict mapping string names to trackable operations. "
                f"Name is not a string: {name}"
            )
        _refuse_others(variable)
    named = sorted(found.items(), key=lambda item: item[0])
    seen: set[Any] = set()
    for name, variable in named:
        if variable.op in seen:
            raise ValueError(f"The same saveable will be restored with two names: {name}")
        seen.add(variable.op)
    return named


def _flattened(items: Any) -> Iterator[Any]:
    for item in items:
        if isinstance(item, (list, tuple, set)):
            yield from _flattened(item)
        else:
            yield item


def _refuse_others(variable: Any) -> None:
    if not isinstance(variable, (Variable, SaveableObject)):
        raise TypeError(f"Variable to save is not a Variable: {variable}")


def _saved(named: _Named) -> tuple[list[str], list[str], list[Tensor]]:
    """What is in the file: names, slices and tensors of all of them."""
    found: list[tuple[str, str, Tensor]] = []
    for name, item in named:
        if isinstance(item, SaveableObject):
            found += [(spec.name, spec.slice_spec, spec.tensor) for spec in item.specs]
        else:
            found.append((name, "", item._as_graph_element()))
    names, slices, tensors = zip(*found, strict=True)
    return list(names), list(slices), list(tensors)


def _save(path: Tensor, named: _Named) -> Tensor:
    return with_dependencies([save_v2(path, *_saved(named))], path)


def _restore(path: Tensor, named: _Named, reshaped: bool, name: str) -> Operation:
    names, slices, tensors = _saved(named)
    with device("cpu:0"):
        dtypes = [tensor.dtype.base_dtype for tensor in tensors]
        values = iter(restore_v2(path, names, slices, dtypes))
    assigned = []
    for _, item in named:
        if isinstance(item, SaveableObject):
            found = [next(values) for _ in item.specs]
            shapes = [spec.tensor.shape for spec in item.specs] if reshaped else None
            assigned.append(item.restore(found, shapes))
        else:
            assigned.append(_assign(item, next(values), reshaped))
    return group(*assigned, name=name)


def _assign(variable: Variable, value: Tensor, reshaped: bool) -> Any:
    known = variable.shape.is_fully_defined()
    if reshaped:
        value = reshape(value, variable.shape if known else shape(variable))
    if not variable._is_resource:
        return assign(variable, value, validate_shape=known and not reshaped)
    with device(variable.device):
        value = identity(value)
        # TensorFlow's would take a value of any shape here, without a word.
        return apply_op(
            "AssignVariableOp", variable.handle, value, validate_shape=known and not reshaped
        )


# -- shards ------------------------------------------------------------------------------------


def _by_device(named: _Named) -> list[tuple[str, _Named]]:
    found: dict[str, _Named] = {}
    for name, variable in named:
        found.setdefault(canonical(variable.device), []).append((name, variable))
    return sorted(found.items())


def _cpu_of(name: str) -> str:
    """The first CPU of the task a device belongs to."""
    spec = DeviceSpec.parse(name)
    cpu = DeviceSpec(spec.job, spec.replica, spec.task, "CPU", 0)
    return cpu.to_string()


def _sharded_save(path: Tensor, groups: Sequence[tuple[str, _Named]]) -> Tensor:
    with device("/device:CPU:*"):
        remote = regex_full_match(path, "^s3://.*")
        suffix = where(remote, constant_op(".part"), constant_op("_temp/part"))
        base = string_join([path, suffix])
    count = constant_op(len(groups), name="num_shards")
    prefixes, saved = [], []
    for shard, (place, named) in enumerate(groups):
        with device(_cpu_of(place)):
            prefix = apply_op("ShardedFilename", base, shard, count).values()[0]
            prefixes.append(prefix)
            saved.append(_save(prefix, named))
    last = _cpu_of(groups[-1][0])
    with control_dependencies([tensor.op for tensor in saved]), device(last):
        merged = apply_op("MergeV2Checkpoints", prefixes, path, delete_old_dirs=True)
        with control_dependencies([merged]):
            return identity(path)


def _sharded_restore(
    path: Tensor, groups: Sequence[tuple[str, _Named]], reshaped: bool
) -> Operation:
    restored = []
    for place, named in groups:
        with device(place or None):
            restored.append(_restore(path, named, reshaped, "restore_shard"))
    return group(*restored, name="restore_all")
