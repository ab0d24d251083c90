"""`stepscope run` on the real TensorFlow: unchanged scripts, each in a process of its own.

Every script is run once, and all tests about it look at that run.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import started_python
import stepscope
from patience import patient
from stepscope.metadata import iter_runs, load
from stepscope.metadata.xplane import Space


def tensorflow_version():
    for package in ("tensorflow", "tensorflow-cpu"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return ""


pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(not tensorflow_version(), reason="needs the real TensorFlow"),
]
HAS_ESTIMATOR = tensorflow_version().startswith("2.15")
ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",  # it renames MatMul to _MklMatMul
    "CUDA_VISIBLE_DEVICES": "-1",
    "COLUMNS": "120",
}

SCRIPTS = {
    "tf1_session": """
        import tensorflow as tf
        from tensorflow.python.client import timeline
        x = tf.placeholder(tf.float32, [None, 4], name="x")
        w = tf.get_variable("w", [4, 2], initializer=tf.ones_initializer())
        y = tf.matmul(x, w, name="y")
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for i in range(3):
                print(sess.run(y, {x: [[i] * 4]}))
            found = tf.RunMetadata()
            traced = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            sess.run({"y": y}, {x: [[1] * 4]}, options=traced, run_metadata=found)
            nodes = [n.node_name for d in found.step_stats.dev_stats for n in d.node_stats]
            print("y" in nodes, len(found.partition_graphs))
            graphs = tf.RunMetadata()
            wanted = tf.RunOptions(output_partition_graphs=True)
            sess.run(y, {x: [[1] * 4]}, options=wanted, run_metadata=graphs)
            print(len(graphs.partition_graphs), len(graphs.step_stats.dev_stats))
            print(sess.make_callable(y, [x])([[2] * 4]))
        """,
    "keras_fit": """
        import keras
        import numpy as np
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse", jit_compile=False)
        x, y = np.ones((32, 8), "float32"), np.ones((32, 1), "float32")
        history = model.fit(x, y, batch_size=8, epochs=2, verbose=0, shuffle=False)
        print([round(loss, 4) for loss in history.history["loss"]])
        model.evaluate(x, y, batch_size=16, verbose=0)
        print(model.predict(x[:4], verbose=0).shape)
        """,
    "training_loop": """
        import tensorflow as tf
        w = tf.Variable([[1.0], [2.0]])
        x = tf.constant([[1.0, 1.0]])

        @tf.function
        def compiled_step():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(x, w) ** 2)
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        for step in range(4):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(x, w) ** 2)
            w.assign_sub(0.1 * tape.gradient(loss, w))
        print(round(float(loss), 5))
        for step in range(3):
            loss = compiled_step()
        print(round(float(loss), 5))
        """,
    "monitored": """
        import tensorflow as tf
        v1 = tf.compat.v1
        v1.disable_eager_execution()
        step = v1.train.get_or_create_global_step()
        w = v1.get_variable("w", [3], initializer=tf.zeros_initializer())
        loss = tf.reduce_sum((w - 1.0) ** 2, name="loss")
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        stop = v1.train.StopAtStepHook(last_step=5)
        with v1.train.MonitoredTrainingSession(hooks=[stop]) as session:
            while not session.should_stop():
                session.run(train)
        print("stopped")
        """,
    "estimator": """
        import sys
        import numpy as np
        import tensorflow as tf
        v1 = tf.compat.v1

        def inputs():
            x, y = {"x": np.ones((8, 2), "float32")}, np.ones((8, 1), "float32")
            return tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(4)

        def model(features, labels, mode):
            w = v1.get_variable("w", [2, 1])
            loss = tf.reduce_mean((tf.matmul(features["x"], w) - labels) ** 2, name="loss")
            optimizer = v1.train.GradientDescentOptimizer(0.1)
            train = optimizer.minimize(loss, global_step=v1.train.get_global_step())
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

        estimator = tf.estimator.Estimator(model, "estimator_model")
        estimator.train(inputs, steps=4)
        print("step", estimator.get_variable_value("global_step"))
        """,
    "eager_only": """
        import tensorflow as tf
        x = tf.ones((4, 4))
        for _ in range(10):
            x = tf.linalg.matmul(x, x) / 4.0
        print(float(tf.reduce_sum(x)))
        """,
    "python_functions": """
        import numpy as np
        import tensorflow as tf

        def doubled(x):
            return x * 2

        @tf.function
        def inside(x):
            return tf.py_function(doubled, [x], tf.float32, name="slow_part") + 1.0

        x = tf.constant(3.0)
        print(float(inside(x)))
        print(float(tf.numpy_function(doubled, [x], tf.float32)))
        """,
    "failing": """
        import tensorflow as tf

        @tf.function
        def divide(x, y):
            return tf.debugging.check_numerics(x / y, "bad ratio", name="checked")

        one = tf.constant(1.0)
        print(float(divide(one, one)))
        try:
            divide(one, tf.constant(0.0))
        except tf.errors.InvalidArgumentError as error:
            print(type(error) is tf.errors.InvalidArgumentError, hasattr(error, "run_metadata"))
        divide(one, tf.constant(0.0))
        """,
    "arguments": """
        import sys
        import tensorflow as tf
        print(sys.argv, __name__, __file__ == sys.modules["__main__"].__file__)
        sys.stdout.write("no newline at the end: " + str(int(tf.add(40, 2))))
        print("to stderr", file=sys.stderr)
        sys.exit(int(sys.argv[2]))
        """,
    "profiles_itself": """
        import tensorflow as tf

        @tf.function
        def work(x):
            return tf.matmul(x, x, name="product")

        x = tf.ones((16, 16))
        work(x)
        tf.profiler.experimental.start("their_profile")
        for _ in range(4):
            work(x)
        tf.add(x, x)
        tf.profiler.experimental.stop()
        for _ in range(2):
            work(x)
        print("profiled")
        """,
    "blocked_thread": """
        import threading
        import time
        import tensorflow as tf
        queue = tf.queue.FIFOQueue(1, tf.float32)

        @tf.function
        def wait():
            return queue.dequeue()

        @tf.function
        def work(x):
            return tf.matmul(x, x)

        blocked = threading.Thread(target=wait)
        blocked.start()
        x, end, calls = tf.ones((8, 8)), time.monotonic() + 3, 0
        while time.monotonic() < end:
            work(x)
            time.sleep(0.05)
            calls += 1
        queue.enqueue(1.0)
        blocked.join()
        print(calls)
        """,
    "threads": """
        import threading
        import tensorflow as tf
        v1 = tf.compat.v1
        with tf.Graph().as_default():
            queue = v1.FIFOQueue(1, tf.float32, name="queue")
            enqueue, dequeue = queue.enqueue(2.0), queue.dequeue(name="taken")
            with v1.Session() as session:
                fill = threading.Thread(target=lambda: [session.run(enqueue) for _ in range(6)])
                fill.start()
                print(sum(session.run(dequeue) for _ in range(6)))
                fill.join()
        """,
}
ARGUMENTS = {"arguments": ("--code", "7", "--out", "theirs")}
OPTIONS = {
    "keras_fit": (),
    "tf1_session": ("--tf1",),
    "eager_only": ("--trace", "software"),
}


class Ran:
    """A script that ran: its process, its directory and what was recorded."""

    def __init__(self, done, directory):
        self.done = done
        self.directory = directory

    @property
    def names(self):
        """How often each kind of run was recorded."""
        runs = iter_runs(self.directory / "out")
        return dict(Counter(run.name.partition(" ")[2] for run in runs))

    @property
    def runs(self):
        return load(self.directory / "out")

    def ops(self, number):
        """Op types and how often each was executed in a run."""
        return Counter(self.runs[number].ops.op.tolist())

    @property
    def table(self):
        """The report's table: op type to calls and device."""
        rows = re.findall(r"^(\w+) +(\S+) +([\d,]+) +[\d.,]+ \S+ +[\d.,]+", self.done.stderr, re.M)
        return {op: (int(calls.replace(",", "")), device) for op, device, calls in rows}

    @property
    def engine(self):
        return re.search(r"engine: (.*?) · ", self.done.stderr)[1]


def execute(command, directory):
    return started_python.run(
        [sys.executable, *map(str, command)],
        cwd=directory,
        env={**os.environ, **ENVIRONMENT},
        timeout=patient(240),
    )


def write(name, directory):
    lines = SCRIPTS[name].splitlines()
    source = "\n".join(line[8:] for line in lines[1:]) + "\n"
    (directory / f"{name}.py").write_text(source)
    return f"{name}.py"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Call with the name of a script and options; gives its one run with these options."""
    known = {}

    def run(name, *options):
        options = options or OPTIONS.get(name, ())
        if (name, options) not in known:
            directory = tmp_path_factory.mktemp(name)
            script = write(name, directory)
            command = ["-m", "stepscope", "run", "--top", "99", "--out", "out", *options, script]
            done = execute([*command, *ARGUMENTS.get(name, ())], directory)
            known[name, options] = Ran(done, directory)
        return known[name, options]

    return run


def check(run, code=0, said=()):
    assert run.done.returncode == code, run.done.stderr
    assert all(text in run.done.stderr for text in said), run.done.stderr


# -- sessions ----------------------------------------------------------------------------------


def test_a_tensorflow_1_script(ran):
    run = ran("tf1_session")
    check(run)
    lines = run.done.stdout.splitlines()
    assert lines == ["[[0. 0.]]", "[[4. 4.]]", "[[8. 8.]]", "True 0", "1 0", "[[8. 8.]]"]
    assert run.engine == f"tensorflow {tensorflow_version()} (session) as TensorFlow 1"
    assert run.names == {"Session.run": 6, "Session callable": 1}
    assert [metadata.ops.name.tolist().count("y") for metadata in run.runs] == [0, 1, 1, 1, 1, 1, 1]
    assert run.table["MatMul"] == (6, "CPU:0")
    lines = [metadata.sources["y"].rpartition(":")[2] for metadata in run.runs[1:6]]
    assert lines == ["5"] * 5, "also of the run that the script had traced itself"
    assert all(metadata.engine == "tensorflow session" for metadata in run.runs)


def test_tensorflow_1_is_found_out(ran):
    run = ran("tf1_session", "--steps", "1:3", "--trace", "software")
    check(run)
    assert run.done.stdout == ran("tf1_session").done.stdout
    why = "(session) as TensorFlow 1, because of tf.placeholder in line 3"
    assert run.engine.endswith(why)
    assert run.names == {"Session.run": 2}
    assert run.table["MatMul"] == (2, "CPU:0")


def test_a_monitored_training_session(ran):
    run = ran("monitored")
    check(run)
    assert run.done.stdout == "stopped\n"
    assert run.engine == f"tensorflow {tensorflow_version()} (session)"
    assert run.table["ResourceApplyGradientDescent"] == (5, "CPU:0")
    trained = [m for m in run.runs if "ResourceApplyGradientDescent" in m.ops.op.tolist()]
    assert len(trained) == 5
    assert run.names["Session.run"] > 5  # it also asks what is initialized, and initializes it


@pytest.mark.skipif(not HAS_ESTIMATOR, reason="2.15 is the last TensorFlow with Estimator")
def test_an_estimator(ran):
    run = ran("estimator")
    check(run)
    assert run.done.stdout == "step 4\n"
    assert run.table["ResourceApplyGradientDescent"] == (4, "CPU:0")
    assert "SaveV2" in run.table


def test_a_session_with_threads_that_wait_for_each_other(ran):
    run = ran("threads")
    check(run)
    assert run.done.stdout == "12.0\n"
    assert run.names == {"Session.run": 12}
    assert run.table["QueueDequeueV2"][0] == run.table["QueueEnqueueV2"][0] == 6


def test_a_thread_that_is_blocked_for_long_holds_nothing_up(ran):
    run = ran("blocked_thread")
    check(run, said=["the run was still going when the profiler was read"])
    calls = int(run.done.stdout)
    assert (run.names["work"], run.names["wait"]) == (calls, 1)
    assert run.table["MatMul"] == (calls, "CPU:0")


# -- functions, Keras, training loops ----------------------------------------------------------


def test_keras_fit(ran):
    run = ran("keras_fit")
    check(run)
    losses, shape = run.done.stdout.splitlines()
    assert len(json.loads(losses)) == 2
    assert shape == "(4, 1)"
    assert run.engine == f"tensorflow {tensorflow_version()} (function, eager)"
    steps = ["train_function", "test_function"] if HAS_ESTIMATOR else ["train_step", "test_step"]
    assert [run.names[name] for name in steps] == [8, 2]
    assert run.names["predict_step"] == 1
    assert run.names["eager code"] == 1
    first, *_, evaluated, predicted, eager = run.runs
    # Two layers forward, and backward: the weights of both and the input of the second.
    matmuls = [
        sum(count for op, count in Counter(m.ops.op.tolist()).items() if op.endswith("MatMul"))
        for m in (first, evaluated, predicted, eager)
    ]
    assert matmuls == [5, 2, 2, 0]
    assert "MakeIterator" in eager.ops.op.tolist()


def test_only_some_steps_of_keras_fit(ran):
    run = ran("keras_fit", "--every", "4")
    check(run)
    assert run.done.stdout == ran("keras_fit").done.stdout
    # Of 11 steps: 0, 4 and 8, two of training and one of evaluation.
    assert sum(run.names.values()) - run.names["eager code"] == 3
    names = ["train_function", "test_function"] if HAS_ESTIMATOR else ["train_step", "test_step"]
    assert [run.names[name] for name in names] == [2, 1]


def test_a_training_loop(ran):
    run = ran("training_loop")
    check(run)
    plain = execute(["training_loop.py"], run.directory)
    assert run.done.stdout == plain.stdout
    assert run.names == {"gradient tape": 4, "compiled_step": 3, "eager code": 1}
    for number in range(4):
        found = run.ops(number)
        # Forward, and backward to the weights.
        assert (found["MatMul"], found["AssignSubVariableOp"]) == (2, 1)
        assert run.runs[number].engine == "tensorflow eager"
    for number in range(4, 7):
        found = run.ops(number)
        assert (found["MatMul"], found["AssignSubVariableOp"]) == (2, 1)
        assert run.runs[number].engine == "tensorflow function"
    made = run.ops(7)
    assert made["VarHandleOp"] == made["AssignVariableOp"] == 1
    assert run.table["MatMul"] == (14, "CPU:0")


def test_steps_of_a_training_loop(ran):
    run = ran("training_loop", "--steps", "2,5:")
    check(run)
    assert run.names == {"gradient tape": 1, "compiled_step": 2}
    assert run.table["MatMul"] == (6, "CPU:0")


def test_eager_code_only(ran):
    run = ran("eager_only")
    check(run)
    assert run.done.stdout == "16.0\n"
    assert run.engine == f"tensorflow {tensorflow_version()} (eager)"
    assert run.names == {"eager code": 1}
    found = run.ops(0)
    assert (found["MatMul"], found["RealDiv"], found["Sum"]) == (10, 10, 1)
    assert run.table["MatMul"] == (10, "CPU:0")
    starts = run.runs[0].ops.start_ns
    assert (starts[1:] >= starts[:-1]).all()


def test_python_functions(ran):
    run = ran("python_functions")
    check(run)
    assert run.done.stdout == "7.0\n6.0\n"
    inside, eager = run.runs
    assert "slow_part" in inside.ops.name.tolist()
    assert "EagerPyFunc" in inside.ops.op.tolist()
    assert "doubled" in eager.ops.name.tolist()
    assert run.table["EagerPyFunc"][0] == run.table["PyFunc"][0] == 1


# -- the script's own affairs ------------------------------------------------------------------


def test_a_failing_script(ran):
    run = ran("failing")
    check(run, code=1, said=["2 runs failed", "INVALID_ARGUMENT", "bad ratio"])
    assert run.done.stdout == "1.0\nTrue False\n"
    plain = execute(["failing.py"], run.directory)
    traceback = run.done.stderr[run.done.stderr.index("Traceback") :]
    shown = traceback.partition("\n\nstepscope")[0]
    ours = str(Path(stepscope.__file__).parent)
    assert [line for line in shown.splitlines() if f'File "{ours}{os.sep}' in line] == []
    assert 'failing.py", line 5, in divide' in shown
    assert plain.stderr.splitlines()[-1].split(":")[0] in traceback
    assert [metadata.status.code for metadata in run.runs[:3]] == ["OK", *["INVALID_ARGUMENT"] * 2]
    assert run.runs[2].status.in_flight == ["checked"]
    assert run.ops(2)["RealDiv"] == 1


def test_arguments_exit_code_and_output(ran):
    run = ran("arguments")
    check(run, code=7, said=["to stderr\n"])
    plain = execute(["arguments.py", *ARGUMENTS["arguments"]], run.directory)
    assert run.done.stdout == plain.stdout
    assert plain.returncode == 7
    assert "['arguments.py', '--code', '7', '--out', 'theirs'] __main__ True" in plain.stdout
    assert run.table["AddV2"] == (1, "CPU:0")


def test_a_script_that_profiles_itself(ran):
    run = ran("profiles_itself")
    check(run, said=["not measured\n  4 runs: the script was profiling or recording itself\n"])
    assert run.done.stdout == "profiled\n"
    assert run.names == {"work": 3, "eager code": 1}
    assert run.table["MatMul"] == (3, "CPU:0")
    (profile,) = run.directory.glob("their_profile/**/*.xplane.pb")
    host = Space(profile.read_bytes()).plane("/host:CPU")
    events = Counter(host.names[n] for line in host.lines for n in line.metadata_id.tolist())
    assert events["product:MatMul"] == 4
    assert events["EagerLocalExecute: AddV2"] == 1
    assert not [name for name in events if name.startswith("stepscope")]


def test_the_log_of_tensorflow_stays_as_it_was(tmp_path):
    script = write("training_loop", tmp_path)
    loud = {**os.environ, **ENVIRONMENT, "TF_CPP_MIN_LOG_LEVEL": "0"}
    command = [sys.executable, "-m", "stepscope", "run", "--steps", "5:", "--limit", "1", script]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=loud,
        capture_output=True,
        text=True,
        timeout=patient(240),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "cpu_feature_guard" in done.stderr
    # The level of 2.15's own log cannot be changed once it is loaded.
    assert ("rofiler session" in done.stderr) is HAS_ESTIMATOR
    assert "recording ended after 1 (--limit)" in done.stderr


# -- choosing the engine -----------------------------------------------------------------------


def hide_tensorflow(directory):
    """A directory for `PYTHONPATH` in which nothing of TensorFlow can be found."""
    (directory / "sitecustomize.py").write_text(
        "import sys\n"
        "class Nowhere:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'tensorflow':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Nowhere())\n"
    )
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(directory), *sys.path])}


def test_without_tensorflow_installed(tmp_path):
    (tmp_path / "sum.py").write_text(
        "import tensorflow as tf\n"
        "with tf.Session() as session:\n"
        "    print(session.run(tf.constant(1.0) + 2.0))\n"
    )
    environment = hide_tensorflow(tmp_path)

    def run(*arguments):
        command = [sys.executable, "-m", "stepscope", "run", *arguments, "sum.py"]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    refused = run("--engine", "tensorflow")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--engine tensorflow: TensorFlow is not installed" in refused.stderr
    assert "--engine embedded" in refused.stderr
    chosen = run()
    assert (chosen.returncode, chosen.stdout) == (0, "3.0\n")
    assert "engine: embedded (NumPy" in chosen.stderr


def test_steps_and_every_exclude_each_other(stepscope, script):
    done = stepscope("run", "--steps", "1", "--every", "2", script("print('hello')\n"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "--steps and --every: give one of them" in done.stderr


def test_steps_on_the_embedded_engine(stepscope, script, tmp_path):
    source = (
        "import tensorflow as tf\n"
        "x = tf.placeholder(tf.float32)\n"
        "with tf.Session() as session:\n"
        "    print(sum(session.run(x + 1.0, {x: n}) for n in range(6)))\n"
    )
    done = stepscope(
        "run", "--engine", "embedded", "--steps", "2:5", "--out", "out", script(source)
    )
    assert (done.returncode, done.stdout) == (0, "21.0\n")
    assert "3 runs" in done.stderr
    assert len(load(tmp_path / "out")) == 3
