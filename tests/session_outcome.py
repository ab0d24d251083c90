"""How a session of pytest ended, as a file that a program can judge by.

Where `STEPSCOPE_TEST_OUTCOME` names a file, it is written when the session is over and not before:
a session that was killed leaves none. The variable is taken out of the environment, so sessions
that tests start write nothing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


def register(config: pytest.Config) -> None:
    """Write this session's outcome, if somebody asked for it."""
    path = os.environ.pop("STEPSCOPE_TEST_OUTCOME", "")
    if path:
        config.pluginmanager.register(SessionOutcome(Path(path)))


class SessionOutcome:
    """Collects what tests came to; nodes of tests are as pytest takes them on its command line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._passed: dict[str, None] = {}
        self._failed: dict[str, None] = {}
        self._broken: list[str] = []
        """What went wrong besides tests: files that cannot be collected."""
        self._crashed: list[str] = []
        """Workers that died; the test that each was at counts as failed."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = None
        elif report.when == "call" and report.passed:
            self._passed[report.nodeid] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._broken.append(f"{report.nodeid} cannot be collected")

    def pytest_internalerror(self, excrepr: object) -> None:
        self._broken.append(f"pytest itself failed: {excrepr}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        """xdist: a worker has ended, with an error if it died."""
        if error:
            name = getattr(getattr(node, "gateway", None), "id", node)
            self._crashed.append(f"worker {name} crashed: {error}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        passed = [node for node in self._passed if node not in self._failed]
        said = {
            "exit": int(exitstatus),
            "passed": passed,
            "failed": list(self._failed),
            "broken": self._broken,
            "crashed": self._crashed,
        }
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(said))
        part.replace(self._path)
