"""Random graphs on every executor: right values, owned arrays, traces in the order of the edges.

Freed buffers are overwritten throughout, so that reading one too late shows.
"""

import threading

import numpy as np
import pytest
from graph_executors import EXECUTORS, runs_of, session_of
from hypothesis import given
from random_graphs import KEEPER, evaluate, specs

from random_examples import examples
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions
from stepscope.runtime.memory import buffers


@pytest.fixture(autouse=True, scope="module")
def poisoned():
    before = buffers.poisoning()
    buffers.poisoning(True)
    yield
    buffers.poisoning(before)


@pytest.mark.parametrize("executor", EXECUTORS)
@given(drawn=specs())
def test_values_ownership_and_order(executor, drawn):
    spec, example = drawn
    KEEPER.kept.clear()
    state: dict = {}
    returned = []
    with session_of(spec, executor) as (session, built, options):
        traced = RunOptions()
        traced.CopyFrom(options)
        traced.trace_level, traced.output_partition_graphs = 3, True
        fetches = [built.tensors[i] for i in spec.fetches]
        for number, fed in enumerate(runs_of(example)):
            expected = evaluate(spec, fed, state)
            borrowed = {i: v.copy() for i, v in fed.items()}
            metadata = RunMetadata()
            values = session.run(
                fetches,
                {built.tensors[i]: v for i, v in borrowed.items()},
                options=options if number == 1 else traced,
                run_metadata=metadata,
            )
            for value, i in zip(values, spec.fetches, strict=True):
                assert np.shape(value) == expected[i].shape
                assert np.asarray(value).dtype == expected[i].dtype
                np.testing.assert_array_equal(value, expected[i], err_msg=f"node {i}")
            for i, v in borrowed.items():
                np.testing.assert_array_equal(v, fed[i], err_msg="a fed array was written to")
            if number != 1:
                assert metadata.completeness.complete
                check_order(metadata)
            overwrite(values, borrowed)
            returned.append((values, [np.array(v) for v in values]))
    for values, were in returned:
        for value, was in zip(values, were, strict=True):
            np.testing.assert_array_equal(value, was, err_msg="a returned array changed later")
    KEEPER.check()


def overwrite(values, borrowed):
    """Write to every other returned array and to all fed ones; the other arrays must not change."""
    left = [np.array(v) for v in values]
    for k, value in enumerate(values):
        if k % 2 == 0 and isinstance(value, np.ndarray):
            value[...] = 99
            left[k] = np.array(value)
    for value in borrowed.values():
        value[...] = 77
    for value, was in zip(values, left, strict=True):
        np.testing.assert_array_equal(value, was, err_msg="two returned arrays share memory")


def check_order(metadata):
    """Every consumer starts after its producers ended, as the partition graphs say."""
    ops = metadata.ops
    assert (ops.scheduled_ns <= ops.start_ns).all()
    assert (ops.start_ns <= ops.end_ns).all()
    row = {name: i for i, name in enumerate(ops.name) if name != "_SOURCE"}
    sends = {
        n.attr["tensor_name"].s: n.name
        for graph in metadata.partition_graphs for n in graph.node if n.op == "_Send"
    }  # fmt: skip
    edges = 0
    for graph in metadata.partition_graphs:
        for node in graph.node:
            sources = [s.lstrip("^").split(":")[0] for s in node.input]
            if node.op == "_Recv":
                sources.append(sends[node.attr["tensor_name"].s])
            for source in sources:
                edges += 1
                assert ops.end_ns[row[source]] <= ops.start_ns[row[node.name]], (source, node.name)
                assert ops.end_ns[row[source]] <= ops.scheduled_ns[row[node.name]]
    assert edges


@pytest.mark.parametrize("executor", ["default", "pool of four"])
@examples(40)
@given(drawn=specs())
def test_runs_side_by_side_have_nothing_in_common(executor, drawn):
    spec, example = drawn
    if any("variable" in n.params or n.kind == "variable" for n in spec.nodes):
        return
    wrong = []
    with session_of(spec, executor) as (session, built, options):
        fetches = [built.tensors[i] for i in spec.fetches]

        def work(number):
            fed = {i: np.asarray(v + v.dtype.type(number)) for i, v in example.items()}
            expected = evaluate(spec, fed, {})
            results = [
                session.run(fetches, {built.tensors[i]: v for i, v in fed.items()}, options=options)
                for _ in range(6)
            ]
            for values in results:
                for value, i in zip(values, spec.fetches, strict=True):
                    if not np.array_equal(value, expected[i]):
                        wrong.append((number, i, value, expected[i]))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


@given(drawn=specs(max_devices=1))
def test_a_fed_intermediate_takes_the_place_of_what_is_behind_it(drawn):
    spec, example = drawn
    with session_of(spec, "default") as (session, built, _):
        expected = evaluate(spec, example, {})
        kinds = ("feed", "constant", "variable", "read", "assign", "assign_add")
        inner = [
            i for i, n in enumerate(spec.nodes) if n.kind not in kinds and expected[i] is not None
        ]
        if not inner:
            return
        changed = inner[0]
        value = expected[changed] + expected[changed].dtype.type(2)
        fetched = session.run(
            [built.tensors[i] for i in spec.fetches],
            {
                **{built.tensors[i]: v for i, v in example.items()},
                built.tensors[changed]: value,
            },
        )
        again = evaluate_with(spec, example, changed, value)
        for got, i in zip(fetched, spec.fetches, strict=True):
            np.testing.assert_array_equal(got, again[i])


def evaluate_with(spec, fed, changed, value):
    """The NumPy evaluation with one node's value given."""
    from random_graphs import Node, Spec

    nodes = list(spec.nodes)
    nodes[changed] = Node("constant", (), {"value": value})
    return evaluate(Spec(nodes, spec.fetches, spec.devices), fed, {})
