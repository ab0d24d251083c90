"""`tf.contrib.rnn`: what programs took from it is what `tf.nn` and `tf.nn.rnn_cell` have."""

from stepscope.layers.rnn import static_bidirectional_rnn, static_rnn
from stepscope.layers.rnn_cells import (
    BasicLSTMCell,
    BasicRNNCell,
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    MultiRNNCell,
    RNNCell,
)
from stepscope.layers.rnn_wrappers import DeviceWrapper, DropoutWrapper, ResidualWrapper
from stepscope.tf1._absent import absent

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "MultiRNNCell",
    "RNNCell",
    "ResidualWrapper",
    "static_bidirectional_rnn",
    "static_rnn",
]

__getattr__ = absent(__name__)
