"""Decoding in a loop, until every sequence is finished: `tf.contrib.seq2seq.dynamic_decode`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import int32
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.layers.layer_base import Layer
from stepscope.layers.rnn import check_cell, turned
from stepscope.layers.rnn_cells import zero_state
from stepscope.layers.seq2seq.helpers import Helper
from stepscope.layers.variable_scope import variable_scope
from stepscope.ops import structures
from stepscope.ops.arrays.constants import zeros_like
from stepscope.ops.arrays.joining import concat
from stepscope.ops.arrays.padding import tile
from stepscope.ops.arrays.shaping import expand_dims, reshape, shape
from stepscope.ops.flow.loops import while_loop
from stepscope.ops.flow.tensor_array import TensorArray
from stepscope.ops.math.comparison import greater_equal, logical_not, logical_or, where
from stepscope.ops.math.reductions import reduce_all


class Decoder:
    """What gives the outputs of one step after the other."""

    @property
    def batch_size(self) -> Any:
        """How many sequences there are."""
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        """The shape of the outputs of one sequence, or a structure of shapes."""
        raise NotImplementedError

    @property
    def output_dtype(self) -> Any:
        """Their types, in the same structure."""
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """Whether what `step` calls finished may go on later, as the beams of a search do."""
        return False

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        """Who is finished before the first step, its inputs and its state."""
        raise NotImplementedError

    def step(
        self, time: Any, inputs: Any, state: Any, name: str | None = None
    ) -> tuple[Any, Any, Any, Any]:
        """The outputs of a step, the next state and inputs, and who is finished."""
        raise NotImplementedError

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> tuple[Any, Any]:
        """What is made of all outputs and the last state, if anything."""
        raise NotImplementedError


class BasicDecoderOutput(NamedTuple):
    """What a `BasicDecoder` gives out in a step."""

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """A cell, a layer behind it if there is one, and a helper that says what the cell reads."""

    def __init__(
        self, cell: Any, helper: Helper, initial_state: Any, output_layer: Layer | None = None
    ) -> None:
        check_cell(cell)
        if not isinstance(helper, Helper):
            raise TypeError(f"helper must be a Helper, received: {type(helper)}")
        if output_layer is not None and not isinstance(output_layer, Layer):
            raise TypeError(f"output_layer must be a Layer, received: {type(output_layer)}")
        self._cell, self._helper, self._output_layer = cell, helper, output_layer
        self._initial_state = initial_state

    @property
    def batch_size(self) -> Any:
        return self._helper.batch_size

    @property
    def output_size(self) -> BasicDecoderOutput:
        return BasicDecoderOutput(self._rnn_output_size(), self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> BasicDecoderOutput:
        dtype = structures.leaves(self._initial_state)[0].dtype
        of_rnn = structures.mapped(lambda _size: dtype, self._rnn_output_size())
        return BasicDecoderOutput(of_rnn, self._helper.sample_ids_dtype)

    def _rnn_output_size(self) -> Any:
        if self._output_layer is None:
            return self._cell.output_size
        layer = self._output_layer

        def behind(size: Any) -> TensorShape:
            axes = TensorShape([size] if isinstance(size, int) else size).as_list()
            return layer.compute_output_shape(TensorShape([None, *axes]))[1:]

        return structures.mapped(behind, self._cell.output_size)

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        del name
        return (*self._helper.initialize(), self._initial_state)

    def step(
        self, time: Any, inputs: Any, state: Any, name: str | None = None
    ) -> tuple[BasicDecoderOutput, Any, Any, Any]:
        with name_scope(name, "BasicDecoderStep", [time]):
            outputs, state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            sample_ids = self._helper.sample(time=time, outputs=outputs, state=state)
            finished, next_inputs, next_state = self._helper.next_inputs(
                time=time, outputs=outputs, state=state, sample_ids=sample_ids
            )
        return BasicDecoderOutput(outputs, sample_ids), next_state, next_inputs, finished


def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Tensor]:
    """Steps of a decoder until all sequences are finished: (outputs, last state, lengths).

    Outputs are [batch, time, ...], or [time, batch, ...] with `output_time_major`. With
    `impute_finished` a sequence that is finished gives zeros, and its state stays; else both go on
    and are to be left out by the lengths. `maximum_iterations` ends it at the latest.

    >>> import stepscope.tf1 as tf
    >>> seq2seq = tf.contrib.seq2seq
    >>> with tf.Graph().as_default():
    ...     cell = tf.nn.rnn_cell.GRUCell(4)
    ...     helper = seq2seq.TrainingHelper(tf.zeros([2, 5, 3]), [5, 4])
    ...     decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32))
    ...     outputs, state, lengths = seq2seq.dynamic_decode(decoder)
    ...     with tf.Session() as session:
    ...         session.run(tf.global_variables_initializer())
    ...         print(session.run(outputs).rnn_output.shape, session.run(lengths))
    (2, 5, 4) [5 4]
    """
    if not isinstance(decoder, Decoder):
        raise TypeError(f"Expected decoder to be type Decoder, but saw: {type(decoder)}")
    with variable_scope(scope, "decoder"):
        most = _number_of_steps(maximum_iterations)
        finished, inputs, state = decoder.initialize()
        if most is not None:
            finished = logical_or(finished, greater_equal(0, most))
        sizes = structures.leaves(decoder.output_size)
        types = structures.leaves(decoder.output_dtype)
        blank = [zero_state(s, decoder.batch_size, t) for s, t in zip(sizes, types, strict=True)]
        arrays = [
            TensorArray(zero.dtype, 0, dynamic_size=True, element_shape=zero.shape)
            for zero in blank
        ]

        def step(
            time: Any, arrays: Any, state: Any, inputs: Any, finished: Any, lengths: Any
        ) -> tuple[Any, ...]:
            outputs, after, following, ends = decoder.step(time, inputs, state)
            structures.check_same(state, after, "The state of the decoder changed")
            if not decoder.tracks_own_finished:
                ends = logical_or(ends, finished)
            if most is not None:
                ends = logical_or(ends, greater_equal(time + 1, most))
            emitted = structures.leaves(outputs)
            if impute_finished:
                pairs = zip(blank, emitted, strict=True)
                emitted = [where(finished, zero, new) for zero, new in pairs]
                after = structures.packed(after, [
                    _kept(finished, old, new) for old, new in
                    zip(structures.leaves(state), structures.leaves(after), strict=True)
                ])  # fmt: skip
            written = [a.write(time, v) for a, v in zip(arrays, emitted, strict=True)]
            lengths = where(finished, lengths, zeros_like(lengths) + (time + 1))
            return time + 1, written, after, following, ends, lengths

        _, arrays, state, _, _, lengths = while_loop(
            lambda _time, _arrays, _state, _inputs, finished, _lengths: logical_not(
                reduce_all(finished)
            ),
            step,
            (convert_to_tensor(0, name="time"), arrays, state, inputs, finished,
             zeros_like(finished, dtype=int32)),
            parallel_iterations=parallel_iterations, swap_memory=swap_memory,
        )  # fmt: skip
        outputs = structures.packed(decoder.output_dtype, [array.stack() for array in arrays])
        with suppress(NotImplementedError):
            outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = structures.mapped(turned, outputs)
    return outputs, state, lengths


def _number_of_steps(given: Any) -> Tensor | None:
    if given is None:
        return None
    most = convert_to_tensor(given, int32, "maximum_iterations")
    if most.shape.rank != 0:
        raise ValueError("maximum_iterations must be a scalar")
    return most


def _kept(finished: Tensor, old: Any, new: Any) -> Any:
    """What is not of one sequence (a time, a history) goes on as long as any does."""
    if isinstance(old, TensorArray):
        return new
    new.set_shape(old.shape)
    return new if new.shape.rank == 0 else where(finished, old, new)


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Each entry of the batch so many times, one after the other; of all tensors in a structure.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     print(session.run(tf.contrib.seq2seq.tile_batch([[1], [2]], 2)).tolist())
    [[1], [1], [2], [2]]
    """

    def one(given: Any) -> Tensor:
        tensor = convert_to_tensor(given)
        axes = tensor.shape.axes
        if axes is None:
            raise ValueError("t must have statically known rank")
        wide = tile(expand_dims(tensor, 1), [1, multiplier] + [1] * (len(axes) - 1))
        result = reshape(wide, concat([[-1], shape(tensor)[1:]], 0))
        result.set_shape([None if axes[0] is None else axes[0] * multiplier, *axes[1:]])
        return result

    with name_scope(name, "tile_batch", [*structures.leaves(t)]):
        return one(t) if isinstance(t, list) else structures.mapped(one, t)
