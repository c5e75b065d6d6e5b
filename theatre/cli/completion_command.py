"""`echelon completion`: what a shell needs to complete commands and options."""

import click
from click.shell_completion import get_completion_class

PROGRAM = "echelon"
VARIABLE = "_ECHELON_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL; put it where your shell looks for such scripts.

    bash: eval "$(echelon completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc; fish: write it
    to ~/.config/fish/completions/echelon.fish.
    """
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"expected bash, zsh or fish, got {shell}")
    click.echo(made(context.find_root().command, {}, PROGRAM, VARIABLE).source())
