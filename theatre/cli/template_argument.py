"""The argument of commands that take a template file."""

from __future__ import annotations

from pathlib import Path

import click

template_argument = click.argument("template", type=click.Path(path_type=Path))
