"""Templates, ground truth and constructs for the tests of the service's theatres."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from tests.theatre.echelon_process import CARTOGRAPH

CARTOGRAPH_HASH = CARTOGRAPH.with_suffix(".commitment.txt")


def cartograph(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - members of a template
    """Return the shipped template of Cartograph with some members changed."""
    return {**cast("dict[str, Any]", json.loads(CARTOGRAPH.read_bytes())), **changes}


def with_config(template: Mapping[str, Any], **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    """Return a template with some members of `product_theatre_config` changed."""
    config = {**template["product_theatre_config"], **changes}
    return {**template, "product_theatre_config": config}


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    """Write a dataset."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
