"""`stepscope view`: a server for one person on this machine.

Who gets an answer:

- it listens on the loopback interface alone;
- each start has a secret of its own. The address that is printed holds it; whoever opens that gets
  a cookie that no script can read and that no page of another site makes the browser send
  (`SameSite=Strict`). Programs send `Authorization: Bearer SECRET`;
- a request whose `Host` is not this server's is refused: a name of another site that resolves to
  this machine gets nothing. So is one that a page of another origin made, by `Origin` or
  `Sec-Fetch-Site`; pages of other ports of this machine are others too;
- only the names that are served are known: no part of a request becomes a path of a file.

What pages may do is said by the Content-Security-Policy: scripts of this server alone, no frames,
no requests elsewhere.
"""

from __future__ import annotations

import contextlib
import gzip
import hmac
import secrets
import threading
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from stepscope.errors import StepscopeError
from stepscope.web.answers import Answer, answered, failed
from stepscope.web.page_files import CONTENT_TYPES, page, page_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.web.recordings import Recordings

__all__ = ["HEADERS", "Viewer", "open_viewer"]

_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": _CSP,
    "Cross-Origin-Opener-Policy": "same-origin-allow-popups",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_NAMES: Final = ("127.0.0.1", "localhost")
_LONGEST_PATH: Final = 1 << 16
_COMPRESSED_FROM: Final = 1_000
_IDLE_S: Final = 60
_OTHER_METHODS: Final = ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT")


class Viewer:
    """A server over some runs. It answers from `start` until `close`.

    >>> with Viewer(recordings) as viewer:  # doctest: +SKIP
    ...     webbrowser.open(viewer.address)
    """

    def __init__(self, recordings: Recordings, port: int = 0) -> None:
        """Listen on a port, by default any that is free; `OSError` where it is taken."""
        self.recordings = recordings
        self._secret = secrets.token_urlsafe(24)
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def origin(self) -> str:
        """The address without the secret."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """What to open; it holds the secret."""
        return f"{self.origin}/?token={self._secret}"

    @property
    def secret(self) -> str:
        """What programs send as `Authorization: Bearer`."""
        return self._secret

    def serve(self) -> None:
        """Answer on this thread until `close` is called from another."""
        self._server.serve_forever(poll_interval=0.2)

    def start(self) -> None:
        """Answer on a thread of its own."""
        self._thread = threading.Thread(target=self.serve, name="stepscope view", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; what is being answered is answered."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Viewer:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # -- who may ask -------------------------------------------------------------------------

    @property
    def cookie(self) -> str:
        """The name of the cookie: those of servers on other ports are not ours."""
        return f"stepscope-{self.port}"

    def refuses(self, headers: Mapping[str, str]) -> str:
        """Why nobody with such headers gets an answer, whatever is asked; "" where they may."""
        hosts = {f"{name}:{self.port}" for name in _NAMES}
        if headers.get("Host", "") not in hosts:
            return "this server answers on its own address alone"
        origin = headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}" for host in hosts}:
            return "pages of other origins get nothing"
        if _is_from_elsewhere(headers) and headers.get("Sec-Fetch-Dest") != "document":
            return "pages of other origins get nothing"
        return ""

    def knows(self, headers: Mapping[str, str], token: str = "") -> bool:
        """Whether the secret was given: by address, cookie or header."""
        given = [token, headers.get("Authorization", "").removeprefix("Bearer ")]
        with contextlib.suppress(CookieError):
            found = SimpleCookie(headers.get("Cookie", "")).get(self.cookie)
            given.append(found.value if found is not None else "")
        secret = self._secret.encode()
        return any(hmac.compare_digest(text.encode(errors="replace"), secret) for text in given)


def _is_from_elsewhere(headers: Mapping[str, str]) -> bool:
    """Whether the browser says that a page of another origin is behind a request."""
    return headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error of ours."""


def _handler(viewer: Viewer) -> type[BaseHTTPRequestHandler]:
    refused = {f"do_{method}": _Handler.refuse_method for method in _OTHER_METHODS}
    return type("Handler", (_Handler,), {"viewer": viewer, **refused})


class _Handler(BaseHTTPRequestHandler):
    viewer: Viewer
    protocol_version = "HTTP/1.1"
    server_version = "stepscope"
    sys_version = ""
    timeout = _IDLE_S

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not said on the terminal."""

    def do_GET(self) -> None:
        self._send(self._answer())

    def do_HEAD(self) -> None:
        self._send(self._answer(), body=False)

    def refuse_method(self) -> None:
        """Nothing is changed by anybody."""
        self.close_connection = True
        self._send(failed(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered here"))

    def _answer(self) -> Answer:
        viewer = self.viewer
        headers: Any = self.headers
        if refused := viewer.refuses(headers):
            return failed(HTTPStatus.FORBIDDEN, refused)
        if len(self.path) > _LONGEST_PATH:
            return failed(HTTPStatus.REQUEST_URI_TOO_LONG, "the address is too long")
        try:
            asked = urlsplit(self.path)
            parameters = dict(parse_qsl(asked.query, keep_blank_values=True))
        except ValueError:
            return failed(HTTPStatus.BAD_REQUEST, "this is no address")
        path = unquote(asked.path)
        if ".." in path or "\\" in path or "\0" in path or not path.startswith("/"):
            return failed(HTTPStatus.BAD_REQUEST, "such a path is not served")
        token = parameters.pop("token", "") if path == "/" else ""
        if not viewer.knows(headers, token):
            return failed(
                HTTPStatus.FORBIDDEN,
                "the secret of this server is missing",
                "open the address that `stepscope view` printed",
            )
        if token:
            cookie = f"{viewer.cookie}={viewer.secret}; Path=/; HttpOnly; SameSite=Strict"
            if _is_from_elsewhere(headers):
                # A link in another page, of a notebook or a terminal in the browser. After a
                # redirect the cookie would not be sent, as it was another page that began it.
                return Answer(HTTPStatus.OK, "", b"", {"Refresh": "0; url=/", "Set-Cookie": cookie})
            return Answer(HTTPStatus.SEE_OTHER, "", b"", {"Location": "/", "Set-Cookie": cookie})
        return self._served(path.removeprefix("/"), parameters)

    def _served(self, path: str, parameters: dict[str, str]) -> Answer:
        if path in ("", "index.html"):
            return Answer(HTTPStatus.OK, CONTENT_TYPES["index.html"], page("view"))
        if path in CONTENT_TYPES:
            return Answer(HTTPStatus.OK, CONTENT_TYPES[path], page_file(path))
        if path.startswith("api/"):
            return answered(self.viewer.recordings, path.removeprefix("api/"), parameters)
        return failed(HTTPStatus.NOT_FOUND, "there is nothing of that name")

    def _send(self, answer: Answer, *, body: bool = True) -> None:
        content, extra = answer.body, dict(answer.headers)
        if (
            len(content) >= _COMPRESSED_FROM
            and "Content-Encoding" not in extra
            and "gzip" in self.headers.get("Accept-Encoding", "")
        ):
            content = gzip.compress(content, 5, mtime=0)
            extra["Content-Encoding"] = "gzip"
        self.send_response(answer.status)
        for name, value in {**HEADERS, **extra}.items():
            self.send_header(name, value)
        if answer.content_type:
            self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)


def open_viewer(recordings: Recordings, port: int) -> Viewer:
    """A server on that port; an error that says what to do where it is taken."""
    try:
        return Viewer(recordings, port)
    except OSError as error:
        raise StepscopeError(
            f"port {port} cannot be listened on: {error.strerror}; --port takes another, and "
            "without it one that is free is found"
        ) from error
