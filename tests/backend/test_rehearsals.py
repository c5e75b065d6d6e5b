"""Rehearsals on other ground truth than the committed one: they never certify anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.recorded_examples import LINES
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_bridge import committed, run
from theatre.engine.canonical_json import canonical_line

TWO = b"".join(map(canonical_line, sums(2)))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> SumsStage:
    folder = tmp_path_factory.mktemp("rehearsals")
    stage = sums_stage(folder / "stage", sums(4))
    (stage.folder / "two.jsonl").write_bytes(TWO)
    (folder / "secret.jsonl").write_bytes(TWO)
    (stage.folder / "link.jsonl").symlink_to(folder / "secret.jsonl")
    (stage.folder / "none.jsonl").write_bytes(b"")
    return stage


@pytest.fixture(scope="module")
def client(
    module_database: Database, tmp_path_factory: pytest.TempPathFactory, stage: SumsStage
) -> Iterator[Client]:
    home = tmp_path_factory.mktemp("home")
    with served(create_app(settings_for(module_database, home, **stage.settings))) as client:
        yield client


@pytest.fixture(scope="module")
def ada(client: Client) -> Client:
    return client.registered("ada")


def uploaded(client: Client) -> str:
    return str(client.ask("POST", "/datasets", body=TWO, headers=LINES).document["name"])


def test_a_rehearsal_runs_on_what_it_names_and_certifies_nothing(
    ada: Client, stage: SumsStage, module_database: Database
) -> None:
    for named in ("two.jsonl", uploaded(ada)):
        path = committed(ada, stage.template)
        theatre = run(ada, path, is_certificate_run=False, ground_truth_path=named).document
        assert (theatre["state"], theatre["outcome"], theatre["outcome_reason"]) == (
            "RESOLVED",
            "no_certificate",
            "rehearsal",
        )
        assert (theatre["run"]["progress"], theatre["run"]["total"]) == (2, 2)
    assert module_database.rows("SELECT id FROM theatre_certificates") == []


def test_a_run_that_may_certify_runs_on_what_it_committed(ada: Client, stage: SumsStage) -> None:
    path = committed(ada, stage.template)
    for body in ({"is_certificate_run": True}, {}):
        refused = ada.post(f"{path}/run", {**body, "ground_truth_path": "two.jsonl"})
        assert (refused.status, refused.slug) == (422, "validation-error")
        assert refused.document["errors"][0]["pointer"] == "/ground_truth_path"
    assert ada.get(path).document["run"] is None


@pytest.mark.parametrize(
    "named",
    [
        "absent.jsonl",
        "../secret.jsonl",
        "link.jsonl",
        "none.jsonl",
        "/etc/passwd",
        "x" * 1000,
        "dataset:" + "ab" * 32,
        "dataset:../../secret.jsonl",
        "bob's",
    ],
)
def test_what_lies_outside_the_roots_or_is_anothers_is_not_rehearsed_on(
    client: Client, ada: Client, stage: SumsStage, named: str, tmp_path: Path
) -> None:
    if named == "bob's":
        named = uploaded(client.registered("bob"))
        ada = client.registered("eve")
    path = committed(ada, stage.template)
    body = {"is_certificate_run": False, "ground_truth_path": named}
    refused = ada.post(f"{path}/run", body)
    assert (refused.status, refused.slug) == (422, "dataset-unavailable")
    assert str(tmp_path.parent) not in refused.body.decode()
    assert ada.get(path).document["state"] == "COMMITTED"
