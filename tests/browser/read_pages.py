"""Every page as a person reads it, compared with what commands say of the same runs.

`read_every_page(page, path, said)`: pages that have something to show draw it, with the numbers of
the command line; the others say what is missing. Then one op is chosen and looked for everywhere.
"""

from __future__ import annotations

import re

from stepscope.metadata import readable

PAGES = ["overview", "timeline", "ops", "graph", "memory", "compare", "cluster"]


def pages_with_something(page):
    """The pages whose tabs are not faint."""
    tabs = page.window.get_by_role("navigation", name="Pages").locator("a:not(.nothing)")
    return [name.strip().lower() for name in tabs.all_inner_texts()]


def read_every_page(page, path, said):
    """Look at each page in turn; nothing may go wrong meanwhile."""
    drawn = pages_with_something(page)
    assert {"overview", "timeline", "ops", "graph"} <= set(drawn)
    for name in PAGES:
        page.go(name)
        if name not in drawn:
            # What there is not, the page says, and what to do about it.
            assert page.text(f"main.{name} .empty")
            continue
        assert page.window.locator(f"main.{name} .empty").count() == 0
        READ[name](page, path, said)
    assert page.errors == []


def read_overview(page, path, said):
    info = said("info", path)
    failed = [row for row in info["rows"] if row["status"] != "OK"]
    if failed:
        assert failed[0]["status"].split()[0] in page.text(".failure .headline")
    for row in info["verdict"]["rows"][:1]:
        step = row["step"]
        if step["lengths_ns"]:
            usual = step["median_ns"] or step["first_ns"]
            assert readable.time(usual) in page.text(".verdict .headline")


def read_timeline(page, path, said):
    shown = page.text(".timeline-page")
    ops = int(re.search(r"([\d,]+) ops? in", shown)[1].replace(",", ""))
    assert ops in [row["ops"] for row in said("info", path)["rows"]]
    page.window.locator("canvas.timeline[data-boxes]:not([data-boxes='0'])").wait_for()


def read_ops(page, path, said):
    wanted = said("top", path, "--by", "type")
    page.rows("Ops by type")
    taken = {row["key"]: row["self_ns"] for row in page.taken("Ops")}
    assert taken == {row["key"]: row["self_ns"] for row in wanted["rows"]}


def read_graph(page, path, said):
    page.window.locator("svg.graph [data-node]").first.wait_for()
    nodes = page.window.locator("svg.graph [data-node]").all()
    shown = [node.get_attribute("data-node") for node in nodes]
    # Beside those that ran there are some that did not: fed, pruned, folded.
    measured = [row["key"] for row in said("top", path, "--by", "name")["rows"]]
    ran = [scope for scope in shown if any(f"{name}/".startswith(f"{scope}/") for name in measured)]
    assert ran


def read_memory(page, path, said):
    """The rows of the instant that is shown, the peak's, sum to the live bytes."""
    live = int(page.window.locator("[data-testid='live']").get_attribute("data-bytes"))
    rest = page.window.locator("[data-testid='rest']")
    others = int(rest.get_attribute("data-bytes")) if rest.count() else 0
    assert sum(row["bytes"] for row in page.taken("Tensors alive")) + others == live
    return live


def read_compare(page, path, said):
    raise AssertionError("one path has nothing to compare")


def read_cluster(page, path, said):
    tasks = said("network", path)["tasks"]
    assert {cells[0] for cells in page.rows("Workers")} == set(tasks)


READ = {
    "overview": read_overview,
    "timeline": read_timeline,
    "ops": read_ops,
    "graph": read_graph,
    "memory": read_memory,
    "compare": read_compare,
    "cluster": read_cluster,
}


def choose_op(page, name):
    """Search for an op by its name, and choose it."""
    page.window.locator("#search").fill(name)
    found = page.window.locator("#found li", has_text="op").filter(has_text=name)
    found.first.wait_for()
    found.first.dispatch_event("mousedown")


def is_chosen_on_every_page(page, name):
    """The op that was chosen stays so on every page, and the panel is of it."""
    for other in PAGES:
        tabs = page.window.get_by_role("navigation", name="Pages")
        tabs.get_by_text(other.capitalize(), exact=True).click()
        page.window.locator(f"main.{other}").wait_for()
        assert page.text("[data-testid='selected']") == name
        page.window.locator("aside.panel .lead").wait_for()
