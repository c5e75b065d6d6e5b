"""`--weights`: what each criterion of a verification counts for in the composite."""

from __future__ import annotations

import math
from collections.abc import Mapping

import click

from theatre.verification.template import CRITERIA, EQUAL_WEIGHTS


def _weights(_: click.Context, __: click.Parameter, text: str | None) -> Mapping[str, float]:
    """Return criterion → weight."""
    if text is None:
        return EQUAL_WEIGHTS
    parts = [part.partition("=") for part in text.split(",")]
    try:
        weights = {name: float(number) for name, _, number in parts}
    except ValueError:
        weights = {}
    if (
        weights.keys() != set(CRITERIA)
        or not all(math.isfinite(weight) and weight >= 0 for weight in weights.values())
        or sum(weights.values()) == 0
    ):
        expected = ",".join(f"{criterion}=NUMBER" for criterion in CRITERIA)
        raise click.BadParameter(f"expected {expected}, not all of them 0; got {text:.100}")
    total = sum(weights.values())
    return {criterion: weight / total for criterion, weight in weights.items()}


weights_option = click.option(
    "--weights", callback=_weights, help="precision=2,recall=1,reply_accuracy=1"
)
