"""What the outputs in a trace are."""


def shapes_of(metadata):
    """By node and slot, dtype number and shape."""
    ops, tensors = metadata.ops, metadata.ops.tensors
    rows = zip(tensors.op_index, tensors.slot, tensors.dtype, tensors.shape, strict=True)
    return {(ops.name[i], int(slot)): (int(dtype), tuple(shape)) for i, slot, dtype, shape in rows}
