"""Runs of every engine on TensorBoard's Graphs page, coloured by compute time and by memory.

With STEPSCOPE_PICTURES set to a directory, a picture of both pages of each run is kept there.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import stepscope
import stepscope.tf1 as tf1
from patience import patient
from stepscope.export import TensorBoardWriter

FULL = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
STEPS = 2
TAG = f"step_{STEPS - 1}"
SETTLED = 700
"""Milliseconds: the page moves nodes to their places over half a second."""
PATIENCE = patient(150) * 1000
"""Milliseconds: how long a page may take on a machine that has other things to do."""
PICTURES = os.environ.get("STEPSCOPE_PICTURES", "")


def log_embedded(logdir):
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf1.float32, [None, 256], name="x")
        with tf1.name_scope("hidden"):
            weights = tf1.random_uniform([256, 1024], name="weights")
            hidden = tf1.nn.relu(tf1.matmul(x, weights), name="relu")
        with tf1.name_scope("output"):
            weights = tf1.random_uniform([1024, 16], name="weights")
            logits = tf1.matmul(hidden, weights, name="logits")
        probabilities = tf1.nn.softmax(logits, name="probabilities")
    batch = np.ones((256, 256), np.float32)
    with tf1.Session(graph=graph) as session, TensorBoardWriter(logdir, graph) as writer:
        for step in range(STEPS):
            metadata = tf1.RunMetadata()
            session.run(probabilities, {x: batch}, options=FULL, run_metadata=metadata)
            writer.add_run(metadata, step)
    return "hidden/MatMul", "probabilities"


def log_session(logdir, tf):
    from stepscope.adapters.tensorflow import Session

    v1 = tf.compat.v1
    with v1.Graph().as_default() as graph:
        x = v1.placeholder("float32", [None, 256], name="x")
        with v1.name_scope("hidden"):
            hidden = tf.matmul(x, v1.random_uniform([256, 512]), name="product")
        total = tf.reduce_sum(hidden, name="total")
    with Session(graph=graph) as session, TensorBoardWriter(logdir, graph) as writer:
        for step in range(STEPS):
            metadata = stepscope.RunMetadata()
            feeds = {x: np.ones((256, 256), np.float32)}
            session.run(total, feeds, options=FULL, run_metadata=metadata)
            writer.add_run(metadata, step)
    return "hidden/product", "total"


def log_function(logdir, tf):
    weights = tf.random.uniform([512, 512])

    @tf.function
    def step_function(x):
        with tf.name_scope("attention"):
            scores = tf.nn.softmax(tf.matmul(x, weights), name="scores")
        with tf.name_scope("loss"):
            return tf.reduce_mean(tf.math.cumsum(scores), name="mean")

    batch = tf.ones([256, 512])
    with TensorBoardWriter(logdir) as writer:
        for step in range(STEPS):
            metadata = stepscope.RunMetadata()
            stepscope.run(step_function, batch, options=FULL, run_metadata=metadata)
            writer.add_run(metadata, step)
    return "attention/MatMul", "loss/mean"


def log_eager(logdir, tf):
    x, weights = tf.ones([256, 512]), tf.random.uniform([512, 512])
    with TensorBoardWriter(logdir) as writer:
        for step in range(STEPS):
            with stepscope.observe(FULL) as metadata:
                with stepscope.annotate("forward"):
                    hidden = tf.nn.relu(tf.matmul(x, weights))
                    scores = tf.nn.softmax(tf.matmul(hidden, weights))
                with stepscope.annotate("loss"):
                    tf.reduce_mean(tf.square(scores))
            writer.add_run(metadata, step)
    return "forward/MatMul_1", "loss/Mean"


@pytest.fixture(scope="module")
def logged(tmp_path_factory, tensorflow):
    """The directory, and for each run two of its nodes: an expensive one and a cheap one."""
    logdir = tmp_path_factory.mktemp("logs")
    return logdir, {
        "embedded": log_embedded(logdir / "embedded"),
        "session": log_session(logdir / "session", tensorflow),
        "function": log_function(logdir / "function", tensorflow),
        "eager": log_eager(logdir / "eager", tensorflow),
    }


@pytest.fixture(scope="module")
def address(serve, logged):
    return serve(logged[0])


class GraphsPage:
    """The page as a user works it: choose a run and a step, open the scopes, choose a colour."""

    def __init__(self, page, address):
        self.page = page
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}#graphs")
        page.locator("tf-graph-scene g.node").first.wait_for()

    def choose(self, run, tag):
        for place, wanted in enumerate((run, tag)):
            menu = self.page.locator("tf-graph-controls paper-dropdown-menu").nth(place)
            menu.click()
            item = menu.locator("paper-item", has_text=wanted).first
            if wanted == run:
                item.click()
                continue
            with self.page.expect_response(lambda r: "run_metadata?" in r.url and TAG in r.url):
                item.click()
        self.page.locator("#compute-time-radio-button[aria-disabled='false']").wait_for()

    def node(self, name):
        return self.page.locator(f"tf-graph-scene g.node[data-name='{name}']").first

    def open_scopes(self, *names):
        for name in names:
            # Nodes still move when the next one is to be opened, so the mouse could miss it.
            self.node(name).locator("> g.nodeshape").first.dispatch_event("dblclick")
            self.page.locator(f"g.node.expanded[data-name='{name}']").first.wait_for()

    def card(self, name, until, beside):
        """What the card of a node says, its lines by their first column.

        The page puts statistics on its nodes some time after it has them; so the card is looked at
        until it says what it should, going to another node and back in between.
        """
        said = {}
        for _ in range(int(PATIENCE // 500)):
            self.node(name).locator("> g.nodeshape").first.dispatch_event("click")
            self.page.wait_for_timeout(250)
            lines = self.page.locator("tf-node-info .node-stats .sub-list-table-row").all()
            rows = [line.locator("> *").all_text_contents() for line in lines]
            said = {left.strip(): right.strip() for left, right in rows}
            if until.items() <= said.items():
                break
            self.node(beside).locator("> g.nodeshape").first.dispatch_event("click")
            self.page.wait_for_timeout(250)
        return said

    def color_by(self, what):
        choice = self.page.locator("paper-radio-button", has_text=what)
        choice.click()
        self.page.locator("paper-radio-button[aria-checked='true']", has_text=what).wait_for()

    def is_redder(self, one, other, by):
        """Whether that is so, or becomes so: colours come a moment after they were chosen."""
        for _ in range(int(PATIENCE // 250)):
            self.page.wait_for_timeout(250)
            if redness(self.fill(one)) > redness(self.fill(other)) + by:
                return True
        return False

    def picture(self):
        self.page.get_by_text("Fit to screen").click()
        self.page.wait_for_timeout(SETTLED)
        return self.page.screenshot()

    def fill(self, name):
        """The colour of a node, as the browser shows it: red, green, blue."""
        shape = self.node(name).locator("> g.nodeshape > .nodecolortarget")
        color = shape.evaluate("shape => getComputedStyle(shape).fill")
        return tuple(int(part) for part in color[color.index("(") + 1 : -1].split(",")[:3])


def statistics(logdir):
    """What the event file says of each node in the step that is looked at."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(logdir))
    events.Reload()
    devices = events.RunMetadata(TAG).step_stats.dev_stats
    return {stats.node_name: stats for device in devices for stats in device.node_stats}


def redness(color):
    red, green, blue = color
    return red - (green + blue) / 2


def keep(taken, path):
    """One picture of the screenshots below each other, without the page's title bar."""
    title = 64
    parts = [Image.open(io.BytesIO(data)).convert("RGB") for data in taken]
    width, height = parts[0].width, parts[0].height - title
    whole = Image.new("RGB", (width, height * len(parts)))
    for row, part in enumerate(parts):
        whole.paste(part.crop((0, title, width, title + height)), (0, row * height))
    path.parent.mkdir(parents=True, exist_ok=True)
    whole.quantize(256).save(path, optimize=True)


def in_units(value, *units):
    """Three digits and a unit, as the page writes them."""
    for unit, size in units:
        if value < size or unit == units[-1][0]:
            return f"{float(f'{value:.3g}'):g} {unit}"
        value /= size
    raise AssertionError


@pytest.mark.parametrize("run", ["embedded", "session", "function", "eager"])
def test_a_run_is_coloured_by_time_and_by_memory(browser, address, logged, run):
    logdir, runs = logged
    expensive, cheap = runs[run]
    window = browser.new_page(viewport={"width": 1100, "height": 700})
    page = GraphsPage(window, address)
    page.choose(run, TAG)
    page.open_scopes(*sorted({name.rpartition("/")[0] for name in (expensive, cheap)} - {""}))
    every = statistics(logdir / run)
    stats = [every[name] for name in (expensive, cheap)]
    times = [node.all_end_rel_micros for node in stats]
    sizes = stats[0].memory[0].total_bytes
    wanted = {
        "Compute Time": in_units(times[0], ("µs", 1000), ("ms", 1000), ("s", 1000)),
        "Memory": in_units(sizes, ("B", 1024), ("KB", 1024), ("MB", 1024)),
    }
    card = page.card(expensive, until=wanted, beside=cheap)
    assert card | wanted == card
    # What the record says counts: on a busy machine the cheap one may have been kept waiting, or
    # another so long that beside it the two have one colour.
    slow, quick = (expensive, cheap) if times[0] > times[1] else (cheap, expensive)
    apart = (max(times) - min(times)) / sum(s.all_end_rel_micros for s in every.values())
    taken = []
    page.color_by("Compute time")
    assert apart < 0.2 or page.is_redder(slow, quick, 10)
    if PICTURES:
        taken.append(page.picture())
    page.color_by("Memory")
    assert page.is_redder(expensive, cheap, 10)
    if PICTURES:
        taken.append(page.picture())
        keep(taken, Path(PICTURES) / f"graphs_{run}.png")
    window.close()
