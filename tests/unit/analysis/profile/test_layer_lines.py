"""The line at which a layer was made."""

from stepscope.analysis.profile.layers import layer_lines
from stepscope.metadata import OpColumns, Recording, RunMetadata


def test_most_of_the_forward_part_says_it():
    names = ["dense/a", "dense/b", "dense/c", "gradients/dense/d", "gradients/dense/e", "other/f"]
    ops = OpColumns.build(
        name=names, op=["MatMul"] * 6, device=["/cpu:0"] * 6, thread=[1] * 6,
        scheduled_ns=[0] * 6, start_ns=range(6), end_ns=range(1, 7),
    )  # fmt: skip
    lines = ["net.py:3", "net.py:3", "net.py:4", "train.py:9", "train.py:9"]
    run = RunMetadata()
    run.record(
        Recording(engine="", ops=lambda: ops, sources=lambda: dict(zip(names, lines, strict=False)))
    )
    assert layer_lines(run)["dense"] == "net.py:3"
    assert "other" not in layer_lines(run)
