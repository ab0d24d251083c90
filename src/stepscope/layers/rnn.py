"""Recurrent networks: cells applied step by step, unrolled in the graph or in a loop.

Where `sequence_length` is given, a sequence that has ended gives zeros, and its state stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import as_dtype, bool_, int32, int64
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.layers.rnn_cells import RNNCell, batch_size_of, zero_state
from stepscope.layers.variable_scope import variable_scope
from stepscope.ops import structures
from stepscope.ops.arrays.constants import zeros, zeros_like
from stepscope.ops.arrays.conversion import cast, identity
from stepscope.ops.arrays.joining import concat
from stepscope.ops.arrays.padding import reverse, reverse_sequence
from stepscope.ops.arrays.shaping import transpose
from stepscope.ops.flow.loops import while_loop
from stepscope.ops.flow.tensor_array import TensorArray
from stepscope.ops.math.comparison import greater_equal, logical_not, logical_or, where
from stepscope.ops.math.elementwise import maximum, minimum
from stepscope.ops.math.reductions import reduce_all, reduce_max

__all__ = [
    "bidirectional_dynamic_rnn",
    "dynamic_rnn",
    "raw_rnn",
    "static_bidirectional_rnn",
    "static_rnn",
]


def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Any, Any]:
    """A cell applied to the steps of `inputs` in a loop: (all outputs, the last state).

    `inputs` is [batch, time, ...], or [time, batch, ...] with `time_major`, as are the outputs; a
    nested structure of such tensors goes to the cell as it is. The state begins as `initial_state`,
    or as zeros of `dtype`.

    Example:
        >>> import stepscope.tf1 as tf
        >>> with tf.Graph().as_default():
        ...     cell = tf.nn.rnn_cell.BasicLSTMCell(8)
        ...     outputs, state = tf.nn.dynamic_rnn(cell, tf.zeros([2, 5, 3]), dtype=tf.float32)
        ...     [v.name for v in tf.trainable_variables()], outputs.shape.as_list()
        (['rnn/basic_lstm_cell/kernel:0', 'rnn/basic_lstm_cell/bias:0'], [2, 5, 8])
    """
    check_cell(cell)
    with variable_scope(scope or "rnn"):
        flat = [convert_to_tensor(t) for t in structures.leaves(inputs)]
        if not time_major:
            flat = [turned(t) for t in flat]
        lengths = _lengths(sequence_length, flat[0], 1)
        state = _first_state(cell, initial_state, batch_size_of(flat[0], 1), dtype)
        steps = structures.packed(inputs, flat)
        outputs, state = _loop(
            cell, steps, state, lengths, parallel_iterations or 32, swap_memory,
            _output_dtype(flat, dtype),
        )  # fmt: skip
        if not time_major:
            outputs = structures.mapped(turned, outputs)
        return outputs, state


def _output_dtype(flat: Sequence[Tensor], dtype: Any) -> Any:
    return flat[0].dtype.base_dtype if dtype is None else as_dtype(dtype)


def check_cell(cell: Any) -> None:
    if not isinstance(cell, RNNCell) and not (callable(cell) and hasattr(cell, "state_size")):
        raise TypeError(
            f"The argument 'cell' ({cell!r}) is not an RNNCell: it needs 'state_size', "
            "'output_size', 'zero_state' and to be called with inputs and a state."
        )


def turned(tensor: Tensor) -> Tensor:
    """Batch and time change places."""
    rank = tensor.shape.rank
    if rank is None:
        return tensor
    if rank < 2:
        raise ValueError(
            f"Expected input tensor {tensor.name} to have rank at least 2, but saw shape: "
            f"{tensor.shape}"
        )
    return transpose(tensor, [1, 0, *range(2, rank)])


def _lengths(given: Any, tensor: Tensor, batch_axis: int) -> Tensor | None:
    if given is None:
        return None
    lengths = convert_to_tensor(given)
    if lengths.dtype.base_dtype not in (int32, int64):
        raise TypeError(f"sequence_length must be int32 or int64, not {lengths.dtype.name}.")
    if lengths.shape.rank not in (None, 1):
        raise ValueError(
            f"sequence_length must be a vector of length batch_size, but saw shape: {lengths.shape}"
        )
    batch = batch_size_of(tensor, batch_axis)
    rows = lengths.shape.axes[0] if lengths.shape.axes else None
    if isinstance(batch, int) and rows is not None and batch != rows:
        raise ValueError(f"sequence_length has {rows} entries for a batch of {batch}.")
    return identity(cast(lengths, int32), name="sequence_length")


def _first_state(cell: Any, initial: Any, batch: Any, dtype: Any) -> Any:
    if initial is not None:
        return structures.mapped(convert_to_tensor, initial)
    if dtype is None:
        raise ValueError("If there is no initial_state, you must give a dtype.")
    if hasattr(cell, "zero_state"):
        return cell.zero_state(batch, dtype)
    return zero_state(cell.state_size, batch, dtype)


def _loop(
    cell: Any, steps: Any, state: Any, lengths: Tensor | None, parallel_iterations: int,
    swap_memory: bool, dtype: Any,
) -> tuple[Any, Any]:  # fmt: skip
    flat = structures.leaves(steps)
    count = batch_size_of(flat[0], 0)
    with name_scope("dynamic_rnn"):
        given = [
            TensorArray(t.dtype.base_dtype, count, tensor_array_name=f"input_{i}",
                        element_shape=None if t.shape.axes is None else t.shape.axes[1:]
                        ).unstack(t)
            for i, t in enumerate(flat)
        ]  # fmt: skip
        batch = batch_size_of(flat[0], 1)
        sizes = [_axes(s) for s in _sizes(cell.output_size)]
        made = [
            TensorArray(dtype, count, tensor_array_name=f"output_{i}",
                        element_shape=[batch if isinstance(batch, int) else None, *axes])
            for i, axes in enumerate(sizes)
        ]  # fmt: skip
    bound = count
    blank: list[Tensor] = []
    if lengths is not None:
        bound = minimum(count, maximum(1, reduce_max(lengths)))
        blank = [_blank(batch, axes, dtype) for axes in sizes]

    def step(time: Tensor, arrays: Any, before: Any) -> tuple[Any, Any, Any]:
        inputs = structures.packed(steps, [a.read(time) for a in given])
        output, after = cell(inputs, before)
        structures.check_same(before, after, "A cell must give the structure of its state")
        outputs = structures.leaves(output)
        if lengths is not None:
            outputs, after = _stopped(time, lengths, blank, outputs, before, after)
        arrays = [a.write(time, v) for a, v in zip(arrays, outputs, strict=True)]
        return time + 1, arrays, after

    _, made, last = while_loop(
        lambda time, *_: time < bound, step, (convert_to_tensor(0, name="time"), made, state),
        parallel_iterations=parallel_iterations, swap_memory=swap_memory,
        maximum_iterations=count,
    )  # fmt: skip
    outputs = []
    for array, axes in zip(made, sizes, strict=True):
        stacked = array.stack()
        rows = [n if isinstance(n, int) else None for n in (count, batch)]
        stacked.set_shape([*rows, *axes])
        outputs.append(stacked)
    if _is_one(cell.output_size):
        return outputs[0], last
    return structures.packed(cell.output_size, outputs), last


def _is_one(size: Any) -> bool:
    return isinstance(size, (int, TensorShape))


def _sizes(size: Any) -> list[Any]:
    return [size] if _is_one(size) else structures.leaves(size)


def _axes(size: Any) -> list[Any]:
    return [size] if isinstance(size, int) else TensorShape(size).as_list()


def _blank(batch: Any, axes: Sequence[int], dtype: Any) -> Tensor:
    if isinstance(batch, int):
        return zeros([batch, *axes], dtype)
    made = zeros(concat([[batch], convert_to_tensor(list(axes))], 0), dtype)
    made.set_shape([None, *axes])
    return made


def _stopped(
    time: Any, lengths: Tensor, blank: Sequence[Tensor], outputs: Sequence[Tensor], before: Any,
    after: Any,
) -> tuple[list[Tensor], Any]:  # fmt: skip
    """Of the sequences that have ended, zeros and the state they had."""
    ended = greater_equal(time, lengths)
    kept = [where(ended, zero, new) for zero, new in zip(blank, outputs, strict=True)]
    states = [
        new if new.shape.rank == 0 else where(ended, old, new)
        for old, new in zip(structures.leaves(before), structures.leaves(after), strict=True)
    ]
    return kept, structures.packed(after, states)


def static_rnn(
    cell: Any,
    inputs: Sequence[Any],
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """A cell applied to a list of inputs, one node per step: (all outputs, the last state)."""
    check_cell(cell)
    if not isinstance(inputs, (list, tuple)):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    outputs = []
    with variable_scope(scope or "rnn") as around:
        first = convert_to_tensor(structures.leaves(inputs[0])[0])
        batch = batch_size_of(first)
        lengths = _lengths(sequence_length, first, 0)
        state = _first_state(cell, initial_state, batch, dtype)
        blank: list[Tensor] = []
        for time, given in enumerate(inputs):
            if time:
                around.reuse_variables()
            output, after = cell(given, state)
            if lengths is not None:
                flat = structures.leaves(output)
                blank = blank or [zeros_like(t) for t in flat]
                kept, after = _stopped(time, lengths, blank, flat, state, after)
                output = structures.packed(output, kept)
            outputs.append(output)
            state = after
    return outputs, state


def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Two cells, one from the front and one from the back: ((outputs), (last states))."""
    along, each = (0, 1) if time_major else (1, 0)

    def back_to_front(tensor: Any) -> Tensor:
        if sequence_length is None:
            return reverse(tensor, [along])
        return reverse_sequence(tensor, sequence_length, along, each)

    more: dict[str, Any] = {"parallel_iterations": parallel_iterations, "dtype": dtype,
            "swap_memory": swap_memory, "time_major": time_major}  # fmt: skip
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as front:
            outputs_fw, state_fw = dynamic_rnn(
                cell_fw, inputs, sequence_length, initial_state_fw, scope=front, **more
            )
        with variable_scope("bw") as back:
            turned = structures.mapped(back_to_front, inputs)
            outputs, state_bw = dynamic_rnn(
                cell_bw, turned, sequence_length, initial_state_bw, scope=back, **more
            )
    outputs_bw = structures.mapped(back_to_front, outputs)
    return (outputs_fw, outputs_bw), (state_fw, state_bw)


def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Sequence[Any],
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any, Any]:
    """Two cells, one from the front and one from the back: (outputs side by side, states)."""
    check_cell(cell_fw)
    check_cell(cell_bw)
    if not isinstance(inputs, (list, tuple)):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as front:
            outputs_fw, state_fw = static_rnn(
                cell_fw, inputs, initial_state_fw, dtype, sequence_length, scope=front
            )
        with variable_scope("bw") as back:
            outputs, state_bw = static_rnn(
                cell_bw, _reversed(inputs, sequence_length), initial_state_bw, dtype,
                sequence_length, scope=back,
            )  # fmt: skip
    outputs_bw = _reversed(outputs, sequence_length)
    both = [concat([a, b], 1) for a, b in zip(outputs_fw, outputs_bw, strict=True)]
    return both, state_fw, state_bw


def _reversed(items: Sequence[Any], lengths: Any) -> list[Any]:
    if lengths is None:
        return list(reversed(items))
    from stepscope.ops.arrays.joining import stack, unstack

    return unstack(reverse_sequence(stack(list(items)), lengths, 0, 1), len(items))


def raw_rnn(
    cell: Any,
    loop_fn: Callable[..., Any],
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[TensorArray, Any, Any]:
    """A loop in which `loop_fn` gives the inputs and says who is done: (outputs, state, its state).

    `loop_fn(time, output, state, loop_state)` is called with None for all but the time before the
    first step, and gives (finished, next input, next state, what is emitted, its own state). What
    it emits the first time says of what shape and type the emitted values are; None: the outputs.
    """
    check_cell(cell)
    if not callable(loop_fn):
        raise TypeError("loop_fn must be a callable")
    with variable_scope(scope or "rnn"):
        time = convert_to_tensor(0, name="time")
        finished, given, state, like, own = loop_fn(time, None, None, None)
        flat = [convert_to_tensor(t) for t in structures.leaves(given)]
        batch = batch_size_of(flat[0])
        state = structures.mapped(convert_to_tensor, state)
        if like is None:
            shapes = [_axes(s) for s in _sizes(cell.output_size)]
            types = [flat[0].dtype.base_dtype] * len(shapes)
            like = cell.output_size
        else:
            emitted = [convert_to_tensor(t) for t in structures.leaves(like)]
            shapes = [t.shape.as_list() for t in emitted]
            types = [t.dtype.base_dtype for t in emitted]
        arrays = [TensorArray(t, 0, dynamic_size=True, name=f"rnn_output_{i}")
                  for i, t in enumerate(types)]  # fmt: skip
        blank = [_blank(batch, axes, t) for axes, t in zip(shapes, types, strict=True)]
        own_state = () if own is None else own

        def step(time: Any, done: Any, current: Any, arrays: Any, state: Any, own: Any) -> Any:
            output, after = cell(current, state)
            following = time + 1
            result = loop_fn(following, output, after, None if own == () else own)
            ends, next_input, next_state, emit, next_own = result
            emit = output if emit is None else emit
            kept = [where(done, zero, new) for zero, new in
                    zip(blank, structures.leaves(emit), strict=True)]  # fmt: skip
            states = [
                new if new.shape.rank == 0 else where(done, old, new)
                for old, new in zip(
                    structures.leaves(state), structures.leaves(next_state), strict=True
                )
            ]
            written = [a.write(time, v) for a, v in zip(arrays, kept, strict=True)]
            return (following, logical_or(done, ends), next_input, written,
                    structures.packed(state, states),
                    own if next_own is None else next_own)  # fmt: skip

        done = cast(convert_to_tensor(finished), bool_)
        *_, arrays, state, own_state = while_loop(
            lambda _time, done, *_: logical_not(reduce_all(done)),
            step, (time, done, structures.packed(given, flat), arrays, state, own_state),
            parallel_iterations=parallel_iterations or 32, swap_memory=swap_memory,
        )  # fmt: skip
        emitted = arrays[0] if _is_one(like) or len(arrays) == 1 else \
            structures.packed(like, list(arrays))  # fmt: skip
        return emitted, state, None if own is None else own_state
