"""What is published of each shipped theatre is what anybody gets who runs it, byte for byte."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.theatre.cartograph_runs import FIXTURES, run_cartograph
from tests.theatre.easel_runs import run_easel
from tests.theatre.observer_runs import run_observer
from tests.theatre.runs import Finished
from theatre.engine.canonical_json import parse_object, sha256_hex
from theatre.engine.commitment import CommitmentProtocol

TEMPLATES = FIXTURES / "templates"
SHIPPED: dict[str, Callable[[Path], Finished]] = {
    "product_cartograph_v1": run_cartograph,
    "product_observer_v1": run_observer,
    "product_easel_v1": run_easel,
}


def published_commitment(name: str) -> bytes:
    return (TEMPLATES / f"{name}.commitment.txt").read_bytes()


@pytest.mark.reproducibility
@pytest.mark.parametrize("name", SHIPPED)
def test_a_run_gives_the_published_results_byte_for_byte(tmp_path: Path, name: str) -> None:
    """Two runs need no comparison of their own: each is held to the same published bytes."""
    finished = SHIPPED[name](tmp_path / "run")
    certificate = finished.document("certificate.json")
    assert {
        "results_hash": certificate["results_hash"],
        "per_episode_sha256": sha256_hex(
            (finished.bundle / "scores" / "per_episode.jsonl").read_bytes()
        ),
        "scores": certificate["scores"],
    } == json.loads((TEMPLATES / f"{name}.expected.json").read_bytes())
    assert f"{certificate['commitment_hash']}\n".encode() == published_commitment(name)


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("product_*.commitment.txt")))
def test_a_shipped_template_has_the_published_commitment(path: Path) -> None:
    name = path.name.removesuffix(".commitment.txt")
    template = parse_object((TEMPLATES / f"{name}.json").read_bytes())
    assert f"{CommitmentProtocol.hash_template(template)}\n".encode() == path.read_bytes()
