"""What `stepscope view`, and the plugin in TensorBoard, give to another's page: nothing."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from patience import patient
from stepscope.export import FileWriter
from stepscope.metadata import iter_runs

RECORDED = Path(__file__).parents[2] / "docs" / "questions" / "recorded"

# Each way in which a page can try to read something of another server; null is nothing.
TRIES = """async server => {
  const read = async (url, options) => {
    try { return await (await fetch(url, options)).text() || null } catch { return null }
  };
  const loaded = (tag, name, url) => new Promise(done => {
    const element = document.createElement(tag);
    element.onload = () => done(tag === "iframe" ? framed(element) : tag);
    element.onerror = () => done(null);
    element[name] = url;
    document.body.append(element);
  });
  const framed = frame => {
    try { return frame.contentDocument?.body?.textContent || null } catch { return null }
  };
  return {
    fetched: await read(`${server}api/session`),
    "with cookies": await read(`${server}api/session`, { credentials: "include" }),
    "without CORS": await read(`${server}api/session`, { mode: "no-cors", credentials: "include" }),
    script: await loaded("script", "src", `${server}stepscope.js`),
    picture: await loaded("img", "src", `${server}api/session`),
    frame: await loaded("iframe", "src", server),
  };
}"""


@pytest.fixture
def elsewhere():
    """The address of a page of another origin, which has no policy of its own."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>another</title><body>")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_page_of_another_origin_gets_nothing(browser, view, elsewhere):
    address = view(RECORDED / "classify")
    parts = urlsplit(address)
    with browser.new_context() as context:
        context.set_default_timeout(patient(60) * 1000)
        page = context.new_page()
        page.goto(address)
        page.locator("main.page").wait_for()
        # The same browser, which now has the cookie of the server, looks at another page.
        other = context.new_page()
        other.goto(elsewhere)
        for host in ("127.0.0.1", "localhost"):
            got = other.evaluate(TRIES, f"{parts.scheme}://{host}:{parts.port}/")
            assert got == dict.fromkeys(got), host
            assert len(got) == 6
        # Its own page goes on.
        page.reload()
        page.locator("main.overview .verdict .headline").first.wait_for()


# As TRIES, of the routes of the plugin: its page and its script are no secret, what they show is.
PLUGIN_TRIES = """async plugin => {
  const read = async (url, options) => {
    try { return await (await fetch(url, options)).text() || null } catch { return null }
  };
  const framed = url => new Promise(done => {
    const frame = document.createElement("iframe");
    frame.onload = () => {
      try { done(frame.contentDocument?.body?.textContent || null) } catch { done(null) }
    };
    frame.onerror = () => done(null);
    frame.src = url;
    document.body.append(frame);
  });
  const script = url => new Promise(done => {
    const element = document.createElement("script");
    const ours = name => /stepscope/i.test(name);
    element.onload = () => done(Object.keys(window).find(ours) ?? null);
    element.onerror = () => done(null);
    element.src = url;
    document.body.append(element);
  });
  const session = `${plugin}api/session`;
  return {
    fetched: await read(session),
    "with cookies": await read(session, { credentials: "include" }),
    "without CORS": await read(session, { mode: "no-cors", credentials: "include" }),
    posted: await read(session, { method: "POST", mode: "no-cors", body: "x" }),
    page: await read(`${plugin}index.html`),
    framed: await framed(session),
    script: await script(session),
  };
}"""


def test_a_page_of_another_origin_gets_nothing_from_the_plugin(browser, serve, elsewhere, tmp_path):
    with FileWriter(tmp_path / "train") as writer:
        for step, run in enumerate(iter_runs(RECORDED / "classify")):
            writer.add_run_metadata(run.metadata, run.name, step)
    address = serve(tmp_path)
    plugin = f"{address.rstrip('/')}/data/plugin/stepscope/"
    with browser.new_context() as context:
        context.set_default_timeout(patient(60) * 1000)
        # The same browser looks at TensorBoard, whose own page is answered.
        own = context.new_page()
        own.goto(address)
        asked = "async url => (await fetch(url)).status"
        assert own.evaluate(asked, f"{plugin}api/session") == 200
        other = context.new_page()
        other.goto(elsewhere)
        got = other.evaluate(PLUGIN_TRIES, plugin)
        assert got == dict.fromkeys(got)
        assert len(got) == 7
    for site in ("cross-site", "same-site"):
        request = Request(f"{plugin}api/session", headers={"Sec-Fetch-Site": site})
        with pytest.raises(HTTPError, match="403"):
            urlopen(request, timeout=patient(60))
