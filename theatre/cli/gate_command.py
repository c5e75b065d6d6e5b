"""`echelon gate`: which review each domain of an `expertise.yaml` really gets."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
import yaml

from theatre.cli.output import json_option, print_document
from theatre.cli.tables import print_table
from theatre.engine.constraint_gate import gate_expertise
from theatre.engine.errors import ExpertiseError, NotFoundError


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
    try:
        return yaml.safe_load(path.read_bytes())
    except FileNotFoundError as error:
        raise NotFoundError(f"expected an expertise file at {path}, got no such file") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ExpertiseError(f"expected YAML in {path}, got: {str(error)[:300]}") from error
