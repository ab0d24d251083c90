"""`Saver` against TensorFlow's: nodes, files read by either side, training that goes on."""

from pathlib import Path

import numpy as np
import pytest

import stepscope.tf1 as tf1
from stepscope.graph.dtypes import int32
from stepscope.ops.io.tensor_bundle import BundleReader, write_bundle

RANDOM = np.random.default_rng(21)
VALUES = {
    "scalar": np.float32(2.5),
    "half": RANDOM.normal(size=5).astype("float16"),
    "single": RANDOM.normal(size=(3, 4)).astype("float32"),
    "double": RANDOM.normal(size=(2, 1, 2)),
    "none": np.zeros((0, 3), "float32"),
    "truth": np.array([[True], [False]]),
    "text": np.array([b"", b"a\0b", b"long " * 99, "ä".encode()], object),
    "one_text": np.array(b"alone", object),
    "complex64": np.array([1 + 2j, -3j], "complex64"),
    "complex128": np.array(2 - 1j),
    **{
        kind: np.arange(3, 9, dtype=kind)
        for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
}


def variables(tf, use_resource, values=VALUES):
    return {
        name: tf.Variable(value, name=f"layer/{name}", use_resource=use_resource)
        for name, value in values.items()
    }


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert np.asarray(found[name]).shape == np.shape(value), name
        assert np.asarray(found[name]).reshape(-1).tolist() == value.reshape(-1).tolist(), name


def nodes(graph):
    """The nodes of savers: name, op, inputs, device and what of the attributes counts."""
    return [
        (n.name, n.op, list(n.input), n.device, str(n.attr["dtypes"]), str(n.attr["_class"]))
        for n in graph.as_graph_def().node
        if n.name.startswith(("save", "mine"))
    ]


@pytest.mark.tensorflow
@pytest.mark.parametrize("use_resource", [False, True])
def test_the_nodes_are_tensorflows(both, use_resource):
    def program(tf):
        made = []
        for place in ("/cpu:0", "/cpu:1", None):
            with tf.device(place):
                made.append(tf.Variable([1.0, 2.0], name="v", use_resource=use_resource))
        savers = [
            tf.train.Saver(),
            tf.train.Saver(sharded=True, max_to_keep=None),
            tf.train.Saver({"b": made[0], "a": made[2]}, reshape=True, name="mine"),
            tf.train.Saver(made[:2], keep_checkpoint_every_n_hours=2.5, filename="here"),
        ]
        return nodes(tf.get_default_graph()), [str(s.as_saver_def()) for s in savers]

    ours, theirs = both(program)
    assert ours == theirs
    assert len(ours[0]) > 50


@pytest.mark.tensorflow
@pytest.mark.parametrize("use_resource", [False, True])
def test_files_go_both_ways(both, tf, tmp_path, use_resource):
    """Each side restores what both saved, and the files are the same, byte for byte."""

    def save(engine):
        directory = tmp_path / engine.__name__
        made = variables(engine, use_resource)
        saver, sharded = engine.train.Saver(), engine.train.Saver(sharded=True)
        with engine.Session() as session:
            session.run(engine.global_variables_initializer())
            return (
                saver.save(session, str(directory / "model"), global_step=7),
                sharded.save(session, str(directory / "sharded")),
                list(made),
            )

    (ours, our_shards, names), (theirs, their_shards, _) = both(save)
    for end in (".index", ".data-00000-of-00001"):
        assert Path(ours + end).read_bytes() == Path(theirs + end).read_bytes()
        assert Path(our_shards + end).read_bytes() == Path(their_shards + end).read_bytes()
    for prefix in (ours, theirs, our_shards, their_shards):

        def restore(engine, prefix=prefix):
            empty = {name: np.zeros_like(value) for name, value in VALUES.items()}
            empty |= {n: np.full(np.shape(VALUES[n]), b"", object) for n in ("text", "one_text")}
            made = variables(engine, use_resource, empty)
            saver = engine.train.Saver()
            with engine.Session() as session:
                saver.restore(session, prefix)
                return dict(zip(made, session.run(list(made.values())), strict=True))

        for found in both(restore):
            assert_same(found, VALUES)
        for engine in (tf1, tf):
            reader = engine.train.load_checkpoint(prefix)
            assert_same({n: reader.get_tensor(f"layer/{n}") for n in names}, VALUES)
    for name in ("list_variables", "latest_checkpoint"):
        mine, other = (getattr(e.train, name)(str(Path(theirs).parent)) for e in (tf1, tf))
        assert mine == other
    mine, other = (engine.train.NewCheckpointReader(ours) for engine in (tf1, tf))
    assert mine.debug_string() == other.debug_string()
    assert mine.get_variable_to_shape_map() == other.get_variable_to_shape_map()
    types = {n: t.name for n, t in other.get_variable_to_dtype_map().items()}
    assert {n: t.name for n, t in mine.get_variable_to_dtype_map().items()} == types
    assert mine.has_tensor("layer/text")
    assert not mine.has_tensor("text")
    assert tf1.train.load_variable(theirs, "layer/scalar:0") == 2.5


@pytest.mark.tensorflow
def test_many_variables_take_several_blocks(tf, tmp_path):
    """The index is a table of blocks: with enough names there are several of them."""
    names = [f"{i * 37 % 600}/{'deep/' * (i % 5 + 200)}variable" for i in range(600)]
    one = np.arange(3, dtype=np.int32)
    write_bundle(tmp_path / "ours", [(name, int32, one) for name in names])
    with tf.Graph().as_default(), tf.Session() as session:
        save = tf.raw_ops.SaveV2(
            prefix=str(tmp_path / "theirs"),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.constant(one)] * len(names),
        )
        session.run(save)
    ours, theirs = ((tmp_path / f"{who}.index").read_bytes() for who in ("ours", "theirs"))
    assert len(ours) > 2 * 262144
    assert ours == theirs
    reader = BundleReader(tmp_path / "theirs")
    assert reader.names() == sorted(names)
    assert reader.read(names[-1]).tolist() == [0, 1, 2]


def model(tf, use_resource=False):
    """Something to train with Adam, whose state must come back, too."""
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    w = tf.get_variable("w", initializer=np.ones([3, 1], np.float32), use_resource=use_resource)
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0), name="loss")
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(0.05).minimize(loss, global_step=step)
    for name, value in {"loss": loss, "train": train}.items():
        tf.add_to_collection(name, value)


def steps(tf, session, count):
    fetches = [tf.get_collection("loss")[0], tf.get_collection("train")[0]]
    random = np.random.default_rng(int(session.run(tf.train.get_global_step())))
    feeds = {"x:0": random.normal(size=(8, 3)).astype(np.float32)}
    return [round(float(session.run(fetches, feeds)[0]), 5) for _ in range(count)]


@pytest.mark.tensorflow
@pytest.mark.parametrize("use_resource", [False, True])
def test_training_goes_on_there_and_here(both, tf, tmp_path, use_resource):
    """Saved by either side with its graph, imported and trained by either: the same losses."""

    def begin(engine):
        directory = tmp_path / engine.__name__
        model(engine, use_resource)
        saver = engine.train.Saver()
        with engine.Session() as session:
            session.run(engine.global_variables_initializer())
            before = steps(engine, session, 5)
            step = engine.train.get_global_step()
            prefix = saver.save(session, str(directory / "model.ckpt"), global_step=step)
            return before, prefix, steps(engine, session, 5)

    (before, our_prefix, after), theirs = both(begin)
    assert our_prefix.endswith("model.ckpt-5")
    assert (before, after) == (theirs[0], theirs[2])
    for prefix in (our_prefix, theirs[1]):

        def go_on(engine, prefix=prefix):
            saver = engine.train.import_meta_graph(f"{prefix}.meta")
            with engine.Session() as session:
                saver.restore(session, engine.train.latest_checkpoint(str(Path(prefix).parent)))
                return steps(engine, session, 5)

        assert both(go_on) == [after, after]


@pytest.mark.tensorflow
def test_imported_into_a_scope(both, tmp_path):
    def program(tf):
        prefix = str(tmp_path / tf.__name__ / "m")
        tf.Variable(3.0, name="v", use_resource=False)
        saver = tf.train.Saver()
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            saver.save(session, prefix)
        with tf.Graph().as_default() as graph, tf.Session() as session:
            imported = tf.train.import_meta_graph(f"{prefix}.meta", import_scope="inner")
            imported.restore(session, prefix)
            collected = tf.get_collection(tf.GraphKeys.SAVERS)
            value = session.run("inner/v:0")
            proto = imported.to_proto("inner"), imported.to_proto("outer")
            names = [op.name for op in graph.get_operations()]
            return float(value), str(imported.as_saver_def()), str(proto), len(collected), names

    ours, theirs = both(program)
    assert ours == theirs
    assert ours[0] == 3.0


@pytest.mark.tensorflow
def test_which_checkpoints_are_kept(both, tmp_path, monkeypatch):
    def program(tf):
        directory = tmp_path / tf.__name__
        directory.mkdir()
        monkeypatch.chdir(directory)
        tf.Variable(1.0, name="v")
        saver = tf.train.Saver(max_to_keep=2)
        found = []
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for path, step in [("m", 1), ("m", 2), ("m", 1), ("m", np.int64(3)), ("deep/m", None)]:
                saver.save(session, path, global_step=step, write_meta_graph=step == 2)
                found.append(list(saver.last_checkpoints))
            saver.save(session, "m", 9, latest_filename="latest", write_state=True)
            padded = tf.train.Saver(pad_step_number=True, save_relative_paths=True)
            found.append(padded.save(session, str(directory / "abs" / "m"), 7)[-10:])
        state = tf.train.get_checkpoint_state("deep")
        found += [state.model_checkpoint_path, list(state.all_model_checkpoint_paths)]
        again = tf.train.Saver()
        again.recover_last_checkpoints([*state.all_model_checkpoint_paths, "gone"])
        found.append(again.last_checkpoints)
        found += [tf.train.latest_checkpoint(p) for p in (".", "deep", "abs", "none")]
        found += [tf.train.latest_checkpoint(".", "latest"), tf.train.checkpoint_exists("m-3")]
        tf.train.remove_checkpoint("m-3")
        found += [tf.train.checkpoint_exists("m-3"), len(tf.train.get_checkpoint_mtimes(["m-9"]))]
        tf.train.update_checkpoint_state("abs", "abs/x", ["abs/y", "abs/x"])
        files = {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}
        texts = [(directory / p / "checkpoint").read_text() for p in (".", "deep", "abs")]
        found = [str(f).replace(str(directory), "") for f in found]
        return found, sorted(files), [text.replace(str(directory), "") for text in texts]

    ours, theirs = both(program)
    assert ours == theirs


def test_one_is_kept_for_every_so_many_hours(graph, tmp_path, monkeypatch):
    tf1.Variable(1.0, name="v")
    now = [1000.0]
    monkeypatch.setattr("stepscope.programs.saving.saver.time.time", lambda: now[0])
    saver = tf1.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=1.0)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        for step in range(8):
            saver.save(session, str(tmp_path / "m"), step, write_meta_graph=False)
            now[0] += 1300
    kept = sorted(path.name for path in tmp_path.glob("*.index"))
    assert kept == ["m-3.index", "m-6.index", "m-7.index"]


@pytest.mark.tensorflow
def test_what_a_saver_refuses(both, tmp_path):
    def program(tf):
        v = tf.Variable([1.0, 2.0], name="v")
        saver, session = tf.train.Saver(), tf.Session()
        session.run(tf.global_variables_initializer())
        unbuilt = tf.train.Saver(defer_build=True)
        place = str(tmp_path / tf.__name__)
        calls = [
            lambda: tf.train.Saver([v, v]),
            lambda: tf.train.Saver({"a": v, "b": v}),
            lambda: tf.train.Saver([tf.constant(1.0, name="c")]),
            lambda: tf.train.Saver(3),
            lambda: tf.train.Saver([]),
            lambda: tf.train.Saver({3: v}),
            lambda: tf.train.Saver([v], defer_build=True),
            lambda: saver.restore(session, None),
            lambda: saver.restore(session, ""),
            lambda: saver.restore(session, "none"),
            lambda: saver.save(session, f"{place}/checkpoint"),
            lambda: saver.save(session, f"{place}/m", latest_filename="a/b"),
            lambda: unbuilt.save(session, f"{place}/m"),
            lambda: tf.train.load_checkpoint(str(tmp_path)),
        ]
        said = []
        for call in calls:
            with pytest.raises((ValueError, TypeError, RuntimeError)) as error:
                call()
            said.append((error.type.__name__, str(error.value).replace(place, "")))
        unbuilt.build()
        unbuilt.save(session, f"{place}/m")
        with tf.Graph().as_default():
            empty = tf.train.Saver(allow_empty=True)
            assert empty.save(tf.Session(), f"{place}/e") is None
            empty.restore(tf.Session(), "whatever")
            with pytest.raises(ValueError, match="No variables to save"):
                tf.train.Saver()
        session.close()
        return said

    ours, theirs = both(program)
    assert ours == theirs


@pytest.fixture
def saved(graph, tmp_path):
    """A checkpoint of `v`, `w` and a text."""
    tf1.Variable([1.0, 2.0], name="v")
    tf1.Variable(np.arange(6).reshape(2, 3), name="w", use_resource=True)
    tf1.Variable(["some", "text"], name="t")
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        return Path(tf1.train.Saver().save(session, str(tmp_path / "m"), write_meta_graph=False))


def restored(variables, prefix):
    """Restore these into a session of their own."""
    saver = tf1.train.Saver(variables)
    with tf1.Session() as session:
        saver.restore(session, str(prefix))


def test_a_checkpoint_that_does_not_fit(saved):
    with tf1.Graph().as_default():
        for wrong in (np.zeros(3, np.float32), np.float32(0)):
            for use_resource in (False, True):
                other = tf1.Variable(wrong, name="other", use_resource=use_resource)
                with pytest.raises(tf1.errors.InvalidArgumentError) as error:
                    restored({"v": other}, saved)
                assert "Restoring from checkpoint failed" in str(error.value)
                wanted = f"lhs shape= {list(wrong.shape)} rhs shape= [2]"
                assert wanted in str(error.value)
                assert f"Variable {other.op.name!r} of the graph" in str(error.value)
        with pytest.raises(tf1.errors.InvalidArgumentError) as error:
            restored({"v": tf1.Variable([1, 2])}, saved)
        assert "expected dtype int32 does not equal original dtype float32" in str(error.value)
        missing = {"vv": tf1.Variable([1.0]), "zz": tf1.Variable([1.0])}
        with pytest.raises(tf1.errors.NotFoundError) as error:
            restored(missing, saved)
        assert "Key vv not found in checkpoint" in str(error.value)
        assert "1 more are missing: zz. It holds 3 tensors, close to the first: v" in str(
            error.value
        )
        reshaped = tf1.Variable(np.zeros((3, 2), np.int64))
        saver = tf1.train.Saver({"w": reshaped}, reshape=True)
        with tf1.Session() as session:
            saver.restore(session, str(saved))
            assert session.run(reshaped).tolist() == [[0, 1], [2, 3], [4, 5]]


def damaged(path, how):
    data = path.read_bytes()
    path.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "foreign": b"hello" * 99}[how])


@pytest.mark.parametrize("how", ["cut", "empty", "foreign"])
@pytest.mark.parametrize("end", [".index", ".data-00000-of-00001"])
def test_damaged_files(saved, how, end):
    damaged(saved.with_name(saved.name + end), how)
    with pytest.raises(tf1.errors.DataLossError) as error:
        restored(None, saved)
    assert f"{saved.name}{end}" in str(error.value)


def test_every_byte_counts(saved):
    """Whatever byte is changed, no wrong value comes back, and no other error."""
    for end in (".index", ".data-00000-of-00001"):
        path = saved.with_name(saved.name + end)
        whole = path.read_bytes()
        lost = 0
        for i in range(len(whole)):
            path.write_bytes(whole[:i] + bytes([whole[i] ^ 0x41]) + whole[i + 1 :])
            try:
                reader = BundleReader(saved)
                values = {name: reader.read(name).tolist() for name in reader.names()}
            except (tf1.errors.DataLossError, tf1.errors.UnimplementedError):
                lost += 1
            else:
                assert values == {
                    "t": [b"some", b"text"], "v": [1.0, 2.0], "w": [[0, 1, 2], [3, 4, 5]],
                }  # fmt: skip
        # The rest are zeros that fill up the end of the index, and a block that nobody reads.
        assert lost >= len(whole) - 60
        path.write_bytes(whole)


def test_files_that_are_missing_or_others(saved, tmp_path):
    (tmp_path / "first").write_bytes(b"of another format")
    with pytest.raises(tf1.errors.DataLossError, match="no checkpoint, or one of the first format"):
        restored(None, tmp_path / "first")
    with pytest.raises(tf1.errors.NotFoundError, match="Failed to find any matching files for"):
        tf1.train.NewCheckpointReader(tmp_path / "none")
    with pytest.raises(tf1.errors.UnimplementedError, match="only local files"):
        tf1.train.NewCheckpointReader("gs://bucket/model")
    (tmp_path / "m.data-00000-of-00001").unlink()
    with pytest.raises(tf1.errors.NotFoundError, match="No such file or directory"):
        restored(None, saved)
    (tmp_path / "file").write_text("")
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        with pytest.raises(ValueError, match=r"Parent directory of .* is no directory, can't save"):
            tf1.train.Saver().save(session, str(tmp_path / "file" / "m"))
        with pytest.raises(TypeError, match="'sess' must be a Session"):
            tf1.train.Saver().save(None, str(tmp_path / "m"))
    (tmp_path / "checkpoint").write_text("model_checkpoint_path: oops")
    assert tf1.train.latest_checkpoint(tmp_path) is None
    (tmp_path / "checkpoint").write_text("")
    with pytest.raises(ValueError, match="Invalid checkpoint state"):
        tf1.train.latest_checkpoint(tmp_path)


def test_a_save_that_fails_leaves_what_was_there(saved, tmp_path):
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with tf1.Session() as session:
        session.run([v.initializer for v in tf1.global_variables()[:2]])
        with pytest.raises(tf1.errors.FailedPreconditionError, match="uninitialized value t"):
            tf1.train.Saver().save(session, str(saved))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.tensorflow
def test_what_tensorflow_2_saved(tensorflow, tmp_path):
    """Names of object-based checkpoints are others; its values can be read all the same."""
    from tensorflow.python.eager import context

    with context.eager_mode():
        checkpoint = tensorflow.train.Checkpoint(v=tensorflow.Variable([1.0, 2.0]))
        prefix = checkpoint.write(str(tmp_path / "m"))
    key = "v/.ATTRIBUTES/VARIABLE_VALUE"
    assert tf1.train.load_variable(prefix, key).tolist() == [1.0, 2.0]
    with tf1.Graph().as_default():
        restored({key: tf1.Variable([0.0, 0.0])}, prefix)
        with pytest.raises(tf1.errors.NotFoundError, match=r"one of tf\.train\.Checkpoint"):
            restored({"v": tf1.Variable([0.0, 0.0])}, prefix)
