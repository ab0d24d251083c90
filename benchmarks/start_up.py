"""How long a process waits for us: `import stepscope` and `stepscope --help` beside `import numpy`.

Each measurement is a process of its own, in pairs with one that imports NumPy alone.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from benchmarks.harness import Pairs, Result, in_pairs

PAIRS = 25
MOST_MORE_S = {"import stepscope": 0.1, "stepscope --help": 0.15}
"""How many seconds more than `import numpy`, at most."""


def start_up(tf: Any) -> list[Result]:
    """Both, against `import numpy`."""
    del tf
    return [
        _row(
            "import stepscope", in_pairs(_started("-c", "import stepscope"), _numpy, rounds=PAIRS)
        ),
        _row(
            "stepscope --help",
            in_pairs(_started("-m", "stepscope", "--help"), _numpy, rounds=PAIRS),
        ),
    ]


def _started(*arguments: str) -> Any:
    def start() -> None:
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)

    return start


_numpy = _started("-c", "import numpy")


def _row(what: str, pairs: Pairs) -> Result:
    most = MOST_MORE_S[what]
    return Result(
        f"{what}, against import numpy",
        pairs.first / 1e6,
        pairs.second / 1e6,
        pairs.ratio,
        f"{most:g} s more",
        pairs.more / 1e9 <= most,
        note=pairs.said(),
    )


GROUPS = (start_up,)
