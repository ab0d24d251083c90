"""Forty scripts die while they are recorded; what must be left of each is (see `deaths`).

They die side by side, in directories of their own; a test looks at one of them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import started_python
from deaths import HOW, Death, check, die

AT_ONCE = 3
EMBEDDED = [
    *(Death("embedded", how, seed) for seed in range(3) for how in HOW),
    *(Death("embedded", how, 0, stuck=True) for how in HOW[:5]),
]
ON_TENSORFLOW = [
    *(Death("function", how, seed) for seed, how in enumerate(("kill", "term", "segv", "exit"))),
    *(Death("session", how, seed) for seed, how in enumerate(("abort", "term", "exit", "kill"))),
    *(Death("keras", how, seed) for seed, how in enumerate(("kill", "term", "segv", "memory"))),
    *(Death("function", how, 0, stuck=True) for how in ("kill", "abort", "exit")),
    *(Death("session", how, 0, stuck=True) for how in ("kill", "segv")),
]


@pytest.fixture(scope="module")
def left(request, tmp_path_factory):
    """What each of the deaths that are looked at left."""
    wanted = {
        item.callspec.params["death"]: tmp_path_factory.mktemp("death")
        for item in request.session.items
        if item.module is request.module
    }
    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = {
            death: pool.submit(die, death, folder, started_python.run)
            for death, folder in wanted.items()
        }
        yield lambda death: begun[death].result()
        for waiting in begun.values():
            waiting.cancel()


@pytest.mark.parametrize("death", EMBEDDED, ids=str)
def test_a_death_on_the_embedded_engine(left, death):
    check(death, left(death))


@pytest.mark.tensorflow
@pytest.mark.parametrize("death", ON_TENSORFLOW, ids=str)
def test_a_death_on_tensorflow(left, death, native):
    del native
    check(death, left(death))
