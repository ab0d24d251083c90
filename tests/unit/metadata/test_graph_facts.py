"""A graph's facts, and columns over them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from stepscope.metadata import GraphFacts, MemoryColumns, OpColumns, StringColumn, TensorColumns

CPU = "/cpu:0"


def two_nodes(**changes):
    columns = {"name": ["a", "b"], "op": ["Const", "Neg"], "device": [CPU, CPU]}
    return GraphFacts.build(**(columns | changes))


def outputs_of_two_nodes():
    """Node 1 has two outputs, node 0 one; out of order."""
    return TensorColumns.build(
        op_index=[1, 0, 1],
        slot=[0, 0, 1],
        dtype=[1, 1, 3],
        shape=[(2, 3), (), (4,)],
        bytes=[24, 4, 16],
    )


def executions(facts, node, **changes):
    start = np.arange(len(node)) * 10
    columns = {
        "node": node, "thread": [7] * len(node), "scheduled_ns": start, "start_ns": start,
        "end_ns": start + 5,
    }  # fmt: skip
    return OpColumns.over(facts, **(columns | changes))


def test_text_is_looked_up_by_node():
    facts = two_nodes(label=["a = Const()", "b = Neg(a)"])
    ops = executions(facts, [1, 0, 1], step=3)
    assert ops.facts is facts
    assert ops.node.dtype == np.int32
    assert ops.node.tolist() == [1, 0, 1]
    assert ops.name.tolist() == ["b", "a", "b"]
    assert ops.op.tolist() == ["Neg", "Const", "Neg"]
    assert ops.device.tolist() == [CPU] * 3
    assert ops.label.tolist() == ["b = Neg(a)", "a = Const()", "b = Neg(a)"]
    assert ops.step.tolist() == [3, 3, 3]
    assert ops.names.table is facts.names.table
    assert repr(ops) == "<OpColumns: 3 executions of 2 nodes on 1 device>"


def test_labels_nobody_knows_are_made_once_per_node():
    facts = two_nodes()
    ops = executions(facts, [1, 0])
    assert ops.labels is None
    assert ops.label.tolist() == ["b = Neg()", "a = Const()"]
    assert facts.all_labels is facts.all_labels


def test_a_node_outside_the_graph_is_refused():
    with pytest.raises(ValueError, match="node points outside the 2 nodes of the graph"):
        executions(two_nodes(), [0, 2])
    with pytest.raises(ValueError, match=r"2 nodes, but columns of other lengths: \{'end_ns': 1\}"):
        executions(two_nodes(), [0, 1], end_ns=[5])
    with pytest.raises(ValueError, match=r"2 names of nodes, but .* \{'devices': 1\}"):
        two_nodes(device=[CPU])
    with pytest.raises(ValueError, match="op_index of outputs points outside the 1 nodes"):
        GraphFacts.build(name=["a"], op=["Neg"], device=[CPU], outputs=outputs_of_two_nodes())


def test_plain_sequences_make_facts_of_their_own():
    ops = OpColumns.build(
        name=["b", "a", "b", "b"], op=["Neg", "Const", "Neg", "Neg"],
        device=[CPU, CPU, "/cpu:1", CPU], thread=[1] * 4,
        scheduled_ns=[0] * 4, start_ns=[0] * 4, end_ns=[1] * 4,
    )  # fmt: skip
    assert ops.node.tolist() == [0, 1, 2, 0]
    assert ops.facts.names.values.tolist() == ["b", "a", "b"]
    assert ops.facts.devices.values.tolist() == [CPU, CPU, "/cpu:1"]
    assert ops.facts is ops.facts
    assert OpColumns.empty().facts.names.table == ()


def test_facts_of_many_strings_are_told_apart():
    """Tables so large that the product of their sizes is beyond 64 bits."""
    rows = 3
    table = tuple(map(str, range(70_000)))
    codes = np.array([0, 69_999, 0], np.int32)
    column = StringColumn(codes, table)
    ops = OpColumns.build(
        name=column, op=column, device=column, label=column, thread=[1] * rows,
        scheduled_ns=[0] * rows, start_ns=[0] * rows, end_ns=[1] * rows,
    )  # fmt: skip
    assert ops.node.tolist() == [0, 1, 0]
    assert ops.facts.devices.values.tolist() == ["0", "69999"]


def test_rows_selected_and_times_replaced_stay_over_the_same_facts():
    facts = two_nodes()
    ops = executions(facts, [1, 0, 1], thread_names={7: "main"})
    part = ops.select([2, 1])
    assert part.facts is facts
    assert part.name.tolist() == ["b", "a"]
    assert part.start_ns.tolist() == [20, 10]
    later = part.replace(start_ns=part.start_ns + 1)
    assert later.facts is facts
    assert later.start_ns.tolist() == later.op_start_ns.tolist() == [21, 11]
    assert later.end_ns.tolist() == [25, 15]
    assert later.thread_name.tolist() == ["main", "main"]


def test_text_replaced_makes_other_facts():
    ops = executions(two_nodes(label=["a = Const()", "b = Neg(a)"]), [1, 0, 1])
    moved = ops.replace(device=["/cpu:1"] * 3)
    assert moved.device.tolist() == ["/cpu:1"] * 3
    assert moved.facts.devices.values.tolist() == ["/cpu:1", "/cpu:1"]
    assert moved.label.tolist() == ops.label.tolist()
    assert ops.replace(label=None).label.tolist() == ["b = Neg()", "a = Const()", "b = Neg()"]
    assert ops.device.tolist() == [CPU] * 3
    elsewhere = ops.facts.replace(device=["/cpu:2", "/cpu:3"])
    assert ops.replace(facts=elsewhere).device.tolist() == ["/cpu:3", "/cpu:2", "/cpu:3"]
    with pytest.raises(TypeError, match="colour"):
        ops.replace(colour=["red"] * 3)


def test_runs_of_one_graph_one_below_the_other():
    facts = two_nodes()
    tensors = TensorColumns.build(op_index=[1], slot=[0], dtype=[1], shape=[(2,)], bytes=[8])
    memory = MemoryColumns.build(op_index=[0], total_bytes=[8], peak_bytes=[8], live_bytes=[0])
    first = executions(facts, [0, 1], tensors=tensors, step=1, thread_names={7: "main"})
    second = executions(facts, [1, 0, 1], tensors=tensors, memory=memory, step=2)
    both = OpColumns.concat([first, OpColumns.empty(), second])
    assert both.facts is facts
    assert both.name.tolist() == ["a", "b", "b", "a", "b"]
    assert both.step.tolist() == [1, 1, 2, 2, 2]
    assert both.output_bytes.tolist() == [0, 8, 0, 8, 0]
    assert both.memory.op_index.tolist() == [2]
    assert both.thread_name.tolist() == ["main"] * 5
    assert both.op_end_ns is both.end_ns


def test_kernel_times_of_one_part_are_kept():
    facts = two_nodes()
    whole = executions(facts, [0])
    told = executions(facts, [1], op_start_ns=[1], op_end_ns=[4])
    both = OpColumns.concat([whole, told])
    assert both.op_start_ns.tolist() == [0, 1]
    assert both.op_end_ns.tolist() == [5, 4]


def test_runs_of_several_graphs_one_below_the_other():
    plain = two_nodes()
    other = GraphFacts.build(
        name=["c"], op=["Add"], device=["/cpu:1"], label=["c = Add(a, b)"], source=["x.py:3"],
        outputs=TensorColumns.build(op_index=[0], slot=[0], dtype=[1], shape=[(5,)], bytes=[20]),
    )  # fmt: skip
    parts = [executions(plain, [1]), executions(other, [0]), executions(plain, [0])]
    both = OpColumns.concat(parts)
    assert both.name.tolist() == ["b", "c", "a"]
    assert both.label.tolist() == ["b = Neg()", "c = Add(a, b)", "a = Const()"]
    assert len(both.facts) == 3
    assert both.facts.sources.values.tolist() == ["", "", "x.py:3"]
    assert both.facts.outputs_of(both.node).op_index.tolist() == [1]


def test_columns_of_plain_sequences_one_below_the_other():
    def plain(name, label=None):
        return OpColumns.build(
            name=[name], op=["Neg"], device=[CPU], thread=[1], label=label,
            scheduled_ns=[0], start_ns=[0], end_ns=[1],
        )  # fmt: skip

    both = OpColumns.concat([plain("a"), plain("b", ["b = Neg(a)"]), plain("a")])
    assert both.name.tolist() == ["a", "b", "a"]
    assert both.label.tolist() == ["a = Neg()", "b = Neg(a)", "a = Neg()"]
    assert OpColumns.concat([plain("a"), plain("b")]).labels is None
    assert len(OpColumns.concat([])) == 0
    mixed = OpColumns.concat([plain("a"), executions(two_nodes(), [1])])
    assert mixed.op.tolist() == ["Neg", "Neg"]
    assert mixed.name.tolist() == ["a", "b"]


def test_static_outputs_are_given_per_execution():
    facts = two_nodes(outputs=outputs_of_two_nodes())
    node = np.array([1, 0, 1], np.int32)
    tensors = facts.outputs_of(node)
    assert tensors.op_index.tolist() == [0, 0, 1, 2, 2]
    assert tensors.slot.tolist() == [0, 1, 0, 0, 1]
    assert list(tensors.shape) == [(2, 3), (4,), (), (2, 3), (4,)]
    ops = executions(facts, node, tensors=tensors)
    assert ops.output_bytes.tolist() == [40, 4, 40]
    assert len(two_nodes().outputs_of(node)) == 0


def test_the_key_is_that_of_the_content():
    facts = two_nodes(outputs=outputs_of_two_nodes(), source=["x.py:1", ""])
    unused = StringColumn(np.array([2, 1], np.int32), ("", "b", "a"))
    assert two_nodes().key == two_nodes(name=unused).key
    same = two_nodes(outputs=outputs_of_two_nodes().in_order(), source=["x.py:1", ""])
    assert facts.key == same.key
    others = [
        two_nodes(),
        two_nodes(name=["a", "c"]),
        two_nodes(name=["ab", ""]),
        two_nodes(op=["Const", "Abs"]),
        two_nodes(device=[CPU, "/cpu:1"]),
        two_nodes(label=["", ""]),
        two_nodes(source=["", ""]),
        two_nodes(source=["x.py:1", ""]),
        two_nodes(outputs=outputs_of_two_nodes()),
        facts,
    ]
    assert len({other.key for other in others}) == len(others)


def test_the_key_is_the_same_in_another_process():
    code = (
        "from stepscope.metadata import GraphFacts\n"
        "print(GraphFacts.build(name=['größe', 'b'], op=['A', 'B'], device=['', '']).key)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = GraphFacts.build(name=["größe", "b"], op=["A", "B"], device=["", ""]).key
    assert told.stdout.strip() == here
    assert len(here) == 32


def test_facts_cannot_be_changed():
    with pytest.raises(AttributeError):
        two_nodes().names = StringColumn.of("cd")
