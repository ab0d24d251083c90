"""TensorBoard's plugin: the viewer's pages over the runs of a logdir.

TensorBoard loads this module whenever it starts, so it imports nothing else until a page is asked
for. Runs in event files come through TensorBoard's data provider, with either loader; Stepscope's
own stores below the logdir are read as they are. Where there are neither the plugin is inactive: it
has then looked at names of files, now and then, and nothing else.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tensorboard.plugins import base_plugin

if TYPE_CHECKING:
    from stepscope.web.answers import Answer
    from stepscope.web.recordings import Recordings

__all__ = ["DATA", "StepscopePlugin", "stores_below"]

DATA: Final = ("graph_tagged_run_metadata", "graph_run_metadata", "graph_run_metadata_graph")
"""What TensorBoard calls the recorded runs of event files."""
_ELSEWHERE: Final = ("cross-site", "same-site")
"""What browsers say of a request by another's page: one of this machine's other ports included."""
_SUFFIX: Final = ".stepscope"
_LOOK_EVERY_S: Final = 30.0
_MOST_FOLDERS: Final = 10_000
_MODULE: Final = b'export function render() { document.location.href = "index.html"; }\n'


class StepscopePlugin(base_plugin.TBPlugin):  # type: ignore[misc]
    """Found by TensorBoard through the entry point `tensorboard_plugins`."""

    plugin_name = "stepscope"

    def __init__(self, context: Any) -> None:
        self._provider = context.data_provider
        self._logdir = Path(context.logdir) if context.logdir else None
        self._lock = threading.Lock()
        self._recordings: dict[str, Recordings] = {}
        self._looked_at = -_LOOK_EVERY_S
        self._has_stores = False

    def data_plugin_names(self) -> tuple[str, ...]:
        """Where event files hold any of these, the plugin is active."""
        return DATA

    def is_active(self) -> bool:
        """Whether there are stores; what event files hold TensorBoard knows itself."""
        now = time.monotonic()
        if not self._has_stores and now - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = now
            self._has_stores = any(True for _ in stores_below(self._logdir))
        return self._has_stores

    def frontend_metadata(self) -> Any:
        """A page of our own in a frame."""
        return base_plugin.FrontendMetadata(
            es_module_path="/index.js", tab_name="Stepscope", disable_reload=True
        )

    def get_plugin_apps(self) -> dict[str, Callable[..., Iterable[bytes]]]:
        """The page's files and the resources, each by its name: no path is made of a request."""
        from stepscope.web.page_files import CONTENT_TYPES
        from stepscope.web.resources import RESOURCES

        apps = {f"/{name}": self._file(name) for name in (*CONTENT_TYPES, "index.js")}
        for name in (*RESOURCES, "trace", "perfetto"):
            apps[f"/api/{name}"] = self._resource(name)
        return apps

    def _file(self, name: str) -> Callable[..., Iterable[bytes]]:
        def serve(environ: Any, start_response: Any) -> Iterable[bytes]:
            from stepscope.web.answers import Answer
            from stepscope.web.page_files import CONTENT_TYPES, page, page_file

            if name == "index.js":
                answer = Answer(200, "text/javascript", _MODULE)
            else:
                content = page("tensorboard") if name == "index.html" else page_file(name)
                answer = Answer(200, CONTENT_TYPES[name], content)
            return _sent(answer, environ, start_response)

        return serve

    def _resource(self, name: str) -> Callable[..., Iterable[bytes]]:
        def serve(environ: Any, start_response: Any) -> Iterable[bytes]:
            from urllib.parse import parse_qsl

            from tensorboard import plugin_util

            from stepscope.web.answers import answered, failed

            if environ.get("HTTP_SEC_FETCH_SITE") in _ELSEWHERE:
                refused = failed(403, "this was asked by a page of another origin")
                return _sent(refused, environ, start_response)
            experiment = plugin_util.experiment_id(environ)
            context = plugin_util.context(environ)
            parameters = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
            parameters.pop("source", None)
            recordings = self._runs_of(experiment, context)
            answer = answered(recordings, name, parameters, place="tensorboard")
            return _sent(answer, environ, start_response)

        return serve

    def _runs_of(self, experiment: str, context: Any) -> Recordings:
        from stepscope.web.plugin_source import LogdirSource
        from stepscope.web.recordings import Recordings

        with self._lock:
            found = self._recordings.get(experiment)
            if found is None:
                source = LogdirSource(self._provider, context, experiment, self._logdir)
                found = self._recordings[experiment] = Recordings(source)
            return found


def stores_below(logdir: Path | None) -> Iterable[Path]:
    """Stepscope's stores in a logdir, in order; of a vast one those in its first folders."""
    if logdir is None or not logdir.is_dir():
        return
    for count, (folder, folders, names) in enumerate(os.walk(logdir)):
        folders.sort()
        if count > _MOST_FOLDERS:
            return
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(_SUFFIX))


def _sent(answer: Answer, environ: Any, start_response: Any) -> Iterable[bytes]:
    from tensorboard.backend import http_util
    from werkzeug import wrappers

    request = wrappers.Request(environ)
    response = http_util.Respond(
        request,
        answer.body,
        answer.content_type,
        code=int(answer.status),
        content_encoding=answer.headers.get("Content-Encoding"),
    )
    sent: Iterable[bytes] = response(environ, start_response)
    return sent
