"""`tf.nn.rnn_cell`: the cells of recurrent networks."""

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
]

__getattr__ = absent(__name__)
