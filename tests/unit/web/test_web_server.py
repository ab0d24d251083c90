"""Who gets an answer from `stepscope view`, and what."""

import gzip
import json
import socket

import pytest

from kinds_of_input import path_of
from stepscope.cli.arguments.command_line import run_command_line
from stepscope.web.frames import decoded


@pytest.fixture
def client(view, tmp_path):
    return view(path_of("embedded_training", tmp_path))


def refused(answer):
    status, _, body = answer
    assert b"error" in body
    assert b"generation" not in body
    return status


def test_with_the_secret_everything_is_there(client):
    assert client.value("session")["state"] == "ok"
    status, headers, page = client.get("/")
    assert status == 200
    assert b'<meta name="stepscope-place" content="view">' in page
    assert headers["Content-Type"].startswith("text/html")
    assert client.get("/stepscope.js")[0] == client.get("/stepscope.css")[0] == 200


def test_the_address_gives_a_cookie_and_the_cookie_the_page(client):
    host = {"Host": f"127.0.0.1:{client.viewer.port}"}
    path = client.viewer.address.removeprefix(client.viewer.origin)
    status, headers, _ = client.raw(path, host)
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    pair = cookie.partition(";")[0]
    assert client.raw("/api/session", {**host, "Cookie": pair})[0] == 200
    assert client.raw("/api/session", {**host, "Cookie": f"other=1; {pair}"})[0] == 200
    # From a link in another page: a redirect would lose the cookie.
    elsewhere = {**host, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}
    status, headers, _ = client.raw(path, elsewhere)
    assert (status, headers["Refresh"], headers["Set-Cookie"]) == (200, "0; url=/", cookie)


@pytest.mark.parametrize("path", ["/", "/api/session", "/api/runs", "/stepscope.js", "/nothing"])
def test_without_the_secret_nothing(client, path):
    host = {"Host": f"127.0.0.1:{client.viewer.port}"}
    for headers in (
        host,
        {**host, "Cookie": f"{client.viewer.cookie}=wrong"},
        {**host, "Authorization": "Bearer "},
        {**host, "Cookie": "{;,="},
    ):
        assert refused(client.raw(path, headers)) == 403
    assert refused(client.raw(f"/api/session?token={client.viewer.secret}", host)) == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_host_or_origin_gets_nothing_even_with_the_secret(client, headers):
    assert refused(client.raw("/api/session", client.own(**headers))) == 403


def test_no_host_at_all(client):
    without = client.own()
    del without["Host"]
    assert refused(client.raw("/api/session", without)) == 403


@pytest.mark.parametrize(
    "path",
    ["/../etc/passwd", "/%2e%2e/etc/passwd", "/api/../../etc/passwd", "/page/..%5c..%5cx", "/a%00b",
     "/etc/passwd", "/api/", "/api/session/x", "/api/__class__", "/server.py"],
)  # fmt: skip
def test_no_path_leads_to_a_file(client, path):
    status = refused(client.get(path))
    assert status in (400, 404)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_is_changed_by_anybody(client, method):
    assert client.raw("/api/session", client.own(), method)[0] == 405


def test_a_page_may_load_nothing_from_elsewhere(client):
    _, headers, _ = client.get("/")
    policy = dict(
        part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Cache-Control"] == "no-store"


def test_only_this_machine_is_listened_to(client):
    assert client.viewer._server.socket.getsockname()[0] == "127.0.0.1"
    assert client.viewer._server.socket.family is socket.AF_INET


def test_wrong_parameters_are_told(client):
    assert client.error("ops?by=colour") == (
        400,
        {"what": "by must be one of type, name, layer, line, file, function, device, thread; "
         "it was 'colour'", "todo": ""},
    )  # fmt: skip
    assert client.error("op?run=99&row=0")[0] == 404
    assert client.error("tile?level=77&index=0")[0] == 400
    assert client.error("op?row=x")[0] == 400
    assert client.error("range?from=nan")[0] == 400
    assert client.error("nothing")[0] == 404
    assert client.error("compare") == (
        422,
        {"what": "there is one set of runs",
         "todo": "give two paths to compare them: stepscope view BASE NEW"},
    )  # fmt: skip


def test_answers_are_compressed_for_whoever_can_read_that(client):
    status, headers, body = client.raw(
        "/api/ops?by=name", client.own(**{"Accept-Encoding": "gzip, br"})
    )
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    assert decoded(gzip.decompress(body))["by"] == "name"
    plain = json.loads(client.get("/api/ops?by=name&format=json")[2])
    assert plain["rows"]["key"] == decoded(gzip.decompress(body))["rows"]["key"]


def test_a_run_as_a_trace_for_perfetto(client):
    status, headers, body = client.get("/api/trace?run=1")
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    events = json.loads(gzip.decompress(body))["traceEvents"]
    drawn = [event for event in events if event.get("ph") == "X"]
    assert len(drawn) >= client.value("timeline?run=1")["ops"]
    assert client.value("perfetto")["page"].startswith("http")


def test_a_port_that_is_taken_is_said(client, tmp_path, capsys):
    path = path_of("tensorflows_own", tmp_path)
    code = run_command_line(["view", str(path), "--port", str(client.viewer.port), "--no-browser"])
    assert code == 2
    assert f"port {client.viewer.port} cannot be listened on" in capsys.readouterr().err


def test_a_path_that_is_not_there_is_said(capsys):
    assert run_command_line(["view", "nowhere", "--no-browser"]) == 2
    assert "nowhere: there is no such file or directory" in capsys.readouterr().err


def test_an_empty_directory_is_waited_at(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("stepscope.web.server.Viewer.serve", lambda _viewer: None)
    assert run_command_line(["view", str(tmp_path), "--no-browser"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("stepscope view: http://127.0.0.1:")
    assert said[1:] == [f"there is no run in {tmp_path} yet: it waits for runs, and shows them"]
    run_command_line(["view", str(path_of("tensorflows_own", tmp_path)), "--no-browser"])
    assert len(capsys.readouterr().out.splitlines()) == 1
