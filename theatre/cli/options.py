"""Arguments and options that several commands take."""

import re
from pathlib import Path

import click

template_argument = click.argument("template", type=click.Path(path_type=Path))


# `--header NAME=VARIABLE`: the name of a header, and of the variable that holds its value.
#
# A value must not be in argv, where every user of the machine can read it.


# The name is a token of RFC 9110, §5.6.2.
_PAIR = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)=([A-Za-z_][0-9A-Za-z_]*)")


def _variables(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> dict[str, str]:
    """Return header → variable; errors do not repeat a word, which may be a value."""
    pairs = [_PAIR.fullmatch(word) for word in words]
    if not all(pairs):
        raise click.BadParameter(
            "expected NAME=VARIABLE: the name of a header, and of the environment variable that "
            "holds its value"
        )
    named = [(pair[1], pair[2]) for pair in pairs if pair is not None]
    if len(dict(named)) != len(named):
        names = ", ".join(name for name, _ in named)
        raise click.BadParameter(f"expected each header once, got {names}")
    return dict(named)


header_option = click.option(
    "--header",
    "headers_env",
    metavar="NAME=VARIABLE",
    multiple=True,
    callback=_variables,
    help="Send the value of an environment variable as a header to URLs of the template.",
)
