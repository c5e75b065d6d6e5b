"""`echelon gate`: which review each domain of an `expertise.yaml` really gets."""

from dataclasses import asdict
from pathlib import Path

import click

from theatre.api.named_files import read_file
from theatre.cli.exits import json_option, print_document
from theatre.cli.tables import print_table
from theatre.engine.constraint_gate import gate_expertise
from theatre.engine.errors import ExpertiseError, ParseError
from theatre.files.yaml_files import parse_yaml


@click.command()
@click.argument("expertise", type=click.Path(path_type=Path))
@json_option
def gate(expertise: Path, *, as_json: bool) -> None:
    """Print declared and effective review for each domain of EXPERTISE (a YAML file)."""
    reviews = gate_expertise(_read_yaml(expertise))
    if as_json:
        print_document({"domains": [asdict(review) for review in reviews]})
        return
    print_table(
        ("domain", "tier", "declared", "effective", "reason"),
        [(r.name, r.tier or "-", r.declared or "-", r.effective, r.reason) for r in reviews],
    )


def _read_yaml(path: Path) -> object:
    data = read_file(path, what="an expertise file")
    try:
        return parse_yaml(data)
    except ParseError as error:
        raise ExpertiseError(f"{path}: {error}") from error
