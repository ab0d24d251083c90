"""What a decoder reads next: the words it should have said, or those it did (`contrib.seq2seq`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import int32
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.layers.rnn import turned
from stepscope.layers.text.embeddings import embedding_lookup
from stepscope.ops import structures
from stepscope.ops.arrays.constants import fill, zeros_like
from stepscope.ops.arrays.conversion import cast, identity
from stepscope.ops.arrays.joining import stack
from stepscope.ops.arrays.padding import tile
from stepscope.ops.arrays.shaping import reshape, shape, size
from stepscope.ops.flow.conditionals import cond
from stepscope.ops.flow.tensor_array import TensorArray
from stepscope.ops.math.comparison import equal, greater_equal, less, where
from stepscope.ops.math.elementwise import maximum
from stepscope.ops.math.random import multinomial, random_uniform
from stepscope.ops.math.reductions import reduce_all
from stepscope.ops.math.scans import argmax

Step = tuple[Any, Any, Any]
"""Who is finished, the next inputs, the next state."""


class Helper:
    """What says, step by step, what is chosen of the outputs and what comes in next."""

    @property
    def batch_size(self) -> Any:
        """How many sequences there are."""
        raise NotImplementedError("batch_size has not been implemented")

    @property
    def sample_ids_shape(self) -> TensorShape:
        """The shape of what is chosen for one sequence."""
        return TensorShape([])

    @property
    def sample_ids_dtype(self) -> Any:
        """The type of what is chosen."""
        return int32

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """Who is finished before the first step, and its inputs."""
        raise NotImplementedError("initialize has not been implemented")

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """What is chosen of the outputs of a step."""
        raise NotImplementedError("sample has not been implemented")

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> Step:
        """What follows a step."""
        raise NotImplementedError("next_inputs has not been implemented")


class TrainingHelper(Helper):
    """Reads the inputs one after the other, whatever was chosen; chosen is the largest output.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     helper = tf.contrib.seq2seq.TrainingHelper(tf.zeros([2, 5, 3]), [5, 0])
    ...     print(session.run(helper.initialize()[0]))
    [False  True]
    """

    def __init__(
        self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None
    ) -> None:
        with name_scope(name, "TrainingHelper", [inputs, sequence_length]):
            tensors = structures.mapped(convert_to_tensor, inputs)
            steps = tensors if time_major else structures.mapped(turned, tensors)
            self._inputs = tensors
            self._arrays = structures.mapped(_unstacked, steps)
            self._zeros = structures.mapped(lambda step: zeros_like(step[0]), steps)
            self._lengths = cast(convert_to_tensor(sequence_length, name="sequence_length"), int32)
            if self._lengths.shape.rank != 1:
                raise ValueError(
                    "Expected sequence_length to be a vector, but received shape: "
                    f"{self._lengths.shape}"
                )
            self._batch_size = size(self._lengths)

    @property
    def inputs(self) -> Any:
        return self._inputs

    @property
    def sequence_length(self) -> Tensor:
        return self._lengths

    @property
    def batch_size(self) -> Tensor:
        return self._batch_size

    def initialize(self, name: str | None = None) -> tuple[Tensor, Any]:
        with name_scope(name, "TrainingHelperInitialize"):
            return self._at(0)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Tensor:
        del time, state
        with name_scope(name, "TrainingHelperSample", [outputs]):
            return cast(argmax(outputs, axis=-1), int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> Step:
        del outputs, sample_ids
        with name_scope(name, "TrainingHelperNextInputs", [time, state]):
            return (*self._at(time + 1), state)

    def _at(self, time: Any) -> tuple[Tensor, Any]:
        """Who is finished at that time, and the inputs then; zeros after the last."""
        finished = greater_equal(time, self._lengths)
        over = reduce_all(finished)
        read = [
            cond(over, partial(identity, zero), partial(array.read, time))
            for zero, array in zip(
                structures.leaves(self._zeros), structures.leaves(self._arrays), strict=True
            )
        ]
        for tensor, zero in zip(read, structures.leaves(self._zeros), strict=True):
            tensor.set_shape(zero.shape)
        return finished, structures.packed(self._zeros, read)


def _unstacked(steps: Tensor) -> TensorArray:
    # Two reads of a step, by the two sides of a condition, are one read in the run.
    return TensorArray(
        steps.dtype, shape(steps)[0], element_shape=steps.shape[1:], clear_after_read=False
    ).unstack(steps)


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """As `TrainingHelper`, but some of the steps read what was chosen: with that probability.

    Where nothing is chosen by chance, the chosen id is -1.
    """

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        embedding: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        scheduling_seed: int | None = None,
        name: str | None = None,
    ) -> None:
        with name_scope(name, "ScheduledEmbeddingSamplingWrapper", [sampling_probability]):
            self._embed = _embedding(embedding)
            self._probability = convert_to_tensor(sampling_probability)
            if self._probability.shape.rank not in (0, 1):
                raise ValueError(
                    "sampling_probability must be either a scalar or a vector. saw shape: "
                    f"{self._probability.shape}"
                )
            self._seed, self._scheduling_seed = seed, scheduling_seed
            super().__init__(inputs, sequence_length, time_major)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Tensor:
        del time, state
        with name_scope(name, "ScheduledEmbeddingTrainingHelperSample", [outputs]):
            rows = shape(outputs)[:1]
            chance = random_uniform(rows, dtype=self._probability.dtype, seed=self._scheduling_seed)
            chosen = cast(reshape(multinomial(outputs, 1, seed=self._seed), [-1]), int32)
            return where(less(chance, self._probability), chosen, fill(rows, -1))

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> Step:
        with name_scope(name, "ScheduledEmbeddingTrainingHelperNextInputs", [time, sample_ids]):
            finished, given, state = super().next_inputs(time, outputs, state, sample_ids)
            drawn = self._embed(maximum(sample_ids, 0))
            return finished, where(greater_equal(sample_ids, 0), drawn, given), state


class GreedyEmbeddingHelper(Helper):
    """Reads the embedding of the largest output of the step before, until that is `end_token`.

    `embedding` is a table, or a function of ids.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     helper = tf.contrib.seq2seq.GreedyEmbeddingHelper(tf.eye(2), [1, 1], 0)
    ...     print(session.run(helper.initialize()[1]).tolist())
    [[0.0, 1.0], [0.0, 1.0]]
    """

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        self._embed = _embedding(embedding)
        self._start_tokens = convert_to_tensor(start_tokens, int32, "start_tokens")
        self._end_token = convert_to_tensor(end_token, int32, "end_token")
        if self._start_tokens.shape.rank != 1:
            raise ValueError("start_tokens must be a vector")
        if self._end_token.shape.rank != 0:
            raise ValueError("end_token must be a scalar")
        self._batch_size = size(self._start_tokens)
        self._start_inputs = self._embed(self._start_tokens)

    @property
    def batch_size(self) -> Tensor:
        return self._batch_size

    def initialize(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        del name
        return tile([False], stack([self._batch_size])), self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Tensor:
        del time, state, name
        return cast(argmax(_one_tensor(outputs), axis=-1), int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> Step:
        del time, outputs, name
        finished = equal(sample_ids, self._end_token)
        following = cond(
            reduce_all(finished), lambda: self._start_inputs, lambda: self._embed(sample_ids)
        )
        following.set_shape(self._start_inputs.shape)
        return finished, following, state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """As `GreedyEmbeddingHelper`, of ids drawn by chance: the outputs are their logits.

    A `softmax_temperature` above 1 makes them more alike, below 1 less.
    """

    def __init__(
        self,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        softmax_temperature: Any = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self._temperature, self._seed = softmax_temperature, seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Tensor:
        del time, state, name
        logits = _one_tensor(outputs)
        if self._temperature is not None:
            logits = logits / self._temperature
        return cast(reshape(multinomial(logits, 1, seed=self._seed), [-1]), int32)


class CustomHelper(Helper):
    """A helper of three functions, with the arguments that a helper's methods have."""

    def __init__(
        self,
        initialize_fn: Callable[[], tuple[Any, Any]],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., Step],
        sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ) -> None:
        self._initialize, self._sample = initialize_fn, sample_fn
        self._next_inputs = next_inputs_fn
        self._batch_size: Any = None
        self._shape = TensorShape([] if sample_ids_shape is None else sample_ids_shape)
        self._dtype = sample_ids_dtype or int32

    @property
    def batch_size(self) -> Any:
        if self._batch_size is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._batch_size

    @property
    def sample_ids_shape(self) -> TensorShape:
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        return self._dtype

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        with name_scope(name, "CustomHelperInitialize"):
            finished, inputs = self._initialize()
            if self._batch_size is None:
                self._batch_size = size(convert_to_tensor(finished))
            return finished, inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        with name_scope(name, "CustomHelperSample", [time, outputs, state]):
            return self._sample(time=time, outputs=outputs, state=state)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> Step:
        with name_scope(name, "CustomHelperNextInputs", [time, outputs, state, sample_ids]):
            return self._next_inputs(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


def _embedding(given: Any) -> Callable[[Any], Tensor]:
    if callable(given):
        return given  # type: ignore[no-any-return]
    return lambda ids: embedding_lookup(given, ids)


def _one_tensor(outputs: Any) -> Tensor:
    if not isinstance(outputs, Tensor):
        raise TypeError(f"Expected outputs to be a single Tensor, got: {type(outputs)}")
    return outputs
