"""`echelon gate`: which review each domain of an `expertise.yaml` really gets."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import yaml

from theatre.api.named_files import read_file
from theatre.cli.exits import json_option, print_document
from theatre.cli.tables import print_table
from theatre.engine.constraint_gate import gate_expertise
from theatre.engine.errors import ExpertiseError

# PyYAML raises these for a tagged scalar that it cannot convert, and for deep nesting.
_ESCAPES = (ValueError, IndexError, AttributeError, RecursionError)


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


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that comes twice: a second `tier: PROVEN` must not win quietly."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002  # yaml's signature
    ) -> dict[Hashable, Any]:
        """Return the mapping; ExpertiseError for a repeated key."""
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value):
            line = node.start_mark.line + 1
            raise ExpertiseError(f"expected each key once in the mapping at line {line}")
        return mapping


def _read_yaml(path: Path) -> object:
    data = read_file(path, what="an expertise file")
    try:
        return yaml.load(data, _StrictLoader)  # noqa: S506  # a SafeLoader
    except (yaml.YAMLError, *_ESCAPES) as error:
        raise ExpertiseError(f"expected YAML in {path}, got: {str(error)[:300]}") from error
