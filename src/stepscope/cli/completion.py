"""`stepscope completion`: the script that makes a shell complete commands, options and paths."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_STEPSCOPE_COMPLETE"
_SHELLS = ("bash", "fish", "zsh")


@click.command(
    name="completion",
    epilog='Example: eval "$(stepscope completion bash)"',
)
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print the script that makes SHELL complete `stepscope`'s commands, options and paths.

    \b
    bash: eval "$(stepscope completion bash)" in ~/.bashrc
    zsh:  eval "$(stepscope completion zsh)" in ~/.zshrc, after compinit
    fish: stepscope completion fish > ~/.config/fish/completions/stepscope.fish
    """  # noqa: D301 - click takes the character, not the letters, for "do not fill these lines"
    from stepscope.cli.arguments.command_line import commands
    from stepscope.cli.output import terminal

    completion = get_completion_class(shell)
    if completion is None:
        raise click.ClickException(f"click knows no completion for {shell}")
    # The class knows the template; asking it for the source would run bash to see its version.
    made = completion(commands, {}, "stepscope", _VARIABLE)
    terminal.write_data(made.source_template % made.source_vars() + "\n")
