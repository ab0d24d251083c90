"""A viewer over real HTTP."""

import http.client
import json
from contextlib import ExitStack

import pytest

from patience import patient
from stepscope.web.frames import decoded
from stepscope.web.recordings import Recordings
from stepscope.web.run_sources import FilesSource
from stepscope.web.server import Viewer


class Client:
    """Asks a viewer as a program does; `raw` sends what it is given and nothing else."""

    def __init__(self, viewer):
        self.viewer = viewer

    def raw(self, path, headers=None, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.viewer.port, timeout=patient(60))
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def own(self, **more):
        return {
            "Host": f"127.0.0.1:{self.viewer.port}",
            "Authorization": f"Bearer {self.viewer.secret}",
            **more,
        }

    def get(self, path):
        return self.raw(path, self.own())

    def value(self, resource):
        status, headers, body = self.get(f"/api/{resource}")
        assert status == 200, body
        assert headers["Content-Type"] == "application/x-stepscope"
        return decoded(body)

    def error(self, resource):
        status, headers, body = self.get(f"/api/{resource}")
        assert headers["Content-Type"] == "application/json"
        return status, json.loads(body)["error"]


@pytest.fixture
def view():
    """A function that serves paths, and gives a client."""
    with ExitStack() as stack:

        def start(*paths):
            return Client(stack.enter_context(Viewer(Recordings(FilesSource(paths)))))

        yield start
