"""`stepscope prepare`: have what makes traces of TensorFlow cheaper on this machine."""

from __future__ import annotations

import importlib.util
import os

import click


@click.command(
    name="prepare",
    epilog="Example: stepscope prepare",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="Give up on the compiler after this long.",
)
def command(timeout_s: float) -> None:
    """Have Stepscope's own executor for the TensorFlow that is installed.

    Where Stepscope came from a wheel for this platform that has it, there is nothing to do. Else it
    is compiled, once per machine and TensorFlow, in some 20 seconds; it needs a C++ compiler. The
    last line says which it was. Programs that use
    stepscope.adapters.tensorflow find it from then on: sessions and functions are traced without
    TensorFlow's profiler, for about a third of what that costs a run. STEPSCOPE_EXECUTOR=off in the
    environment of a program goes back to the profiler. What was compiled before is checked, and
    compiled anew where it is damaged or others could have written it. Exits with 2 where it cannot
    be had.
    """
    from stepscope.cli.output import terminal

    if importlib.util.find_spec("tensorflow") is None:
        raise click.ClickException(
            "TensorFlow is not installed, and nothing else needs it: pip install tensorflow-cpu"
        )
    for name, value in (("TF_CPP_MIN_LOG_LEVEL", "3"), ("TF_ENABLE_ONEDNN_OPTS", "0")):
        os.environ.setdefault(name, value)  # TensorFlow has much to say when it is imported
    from stepscope.adapters.tensorflow import versions
    from stepscope.adapters.tensorflow.node_log import build

    prepared = build.make_ready(timeout_s)
    if prepared.problem:
        raise click.ClickException(f"traces stay with TensorFlow's profiler: {prepared.problem}")
    for odd in prepared.repaired:
        terminal.echo(f"Repaired: {odd}.")
    version = versions.tensorflow().__version__
    terminal.echo(
        f"Sessions and functions of TensorFlow {version} are traced by Stepscope's "
        "own executor from now on."
    )
    if prepared.origin is not None:
        terminal.echo(f"{prepared.origin}.")
