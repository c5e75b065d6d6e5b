"""Templates that need a judge of a provider that the service has not: refused at every door."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Json

from backend.database.embedded.cluster import SUPERUSER
from backend.repositories.theatres import template_row
from tests.backend.databases import Database
from tests.backend.serving import Client, Reply
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_bridge import committed
from tests.backend.verification_stage import RUN, wished
from tests.theatre.conftest import CONSTRUCT_ID
from tests.theatre.runs import COIN
from theatre.engine.canonical_json import canonical_bytes
from theatre.engine.commitment import CommitmentProtocol
from theatre.verification.judge.scorer import SCORER, committed_judge


@pytest.fixture
def stage(tmp_path: Path) -> SumsStage:
    return sums_stage(tmp_path / "stage", sums(2))


def judged(template: Any) -> dict[str, Any]:  # noqa: ANN401 - a template as JSON
    """Return a template whose criteria are all scored by a judge."""
    entry = {
        "scorer": SCORER.name,
        "params": {
            "measure": "precision",
            "field": "claims",
            "record": "record",
            "judge": committed_judge("a-model", temperature=0, repeats=1),
        },
    }
    chosen = dict.fromkeys(template["criteria"]["criteria_ids"], entry)
    scoring = {**template["scoring"], "criteria_scorers": chosen}
    return {**template, "scoring": scoring, "scorer_pins": {SCORER.name: SCORER.version}}


def swapped(database: Database, path: str, template: dict[str, Any]) -> None:
    """Put another template under a theatre, as a release that knew no better stored it."""
    row = template_row(template)
    stored = {**row, "template_json": Json(row["template_json"]), "created_at": "2026-11-21Z"}
    database.add("theatre_templates", stored)
    theatre_id = path.rpartition("/")[2]
    receipt = CommitmentProtocol.commit(
        theatre_id,
        template,
        coin=COIN,
        scorer_pins=template["scorer_pins"],
        scorer_kinds={SCORER.name: SCORER.kind},
        committed_at=datetime(2026, 11, 21, tzinfo=UTC),
    )
    with database.connected(SUPERUSER) as connection:
        # The database itself lets nobody do this.
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "UPDATE theatres SET template_sha256 = %s, "
            "receipt = CASE WHEN receipt IS NULL THEN NULL ELSE %s::bytea END WHERE id = %s",
            (row["sha256"], canonical_bytes(receipt.as_document()), theatre_id),
        )


def told(reply: Reply) -> tuple[int, str, set[str]]:
    """Return status, kind, and the rules that are named."""
    return reply.status, reply.slug, {error["rule"] for error in reply.document["errors"]}


def test_no_theatre_is_made_of_one_and_each_criterion_is_named(
    ada: Client, stage: SumsStage, database: Database
) -> None:
    template = judged(stage.template)
    reply = ada.post("/api/v1/theatres", {"template_json": template})
    assert told(reply) == (422, "template-invalid", {"judge-local"})
    assert {error["pointer"] for error in reply.document["errors"]} == {
        f"/scoring/criteria_scorers/{criterion}/scorer"
        for criterion in template["criteria"]["criteria_ids"]
    }
    assert all(
        "providers that this service has (none; " in error["detail"]
        for error in reply.document["errors"]
    )
    assert database.rows("SELECT id FROM theatres") == []


def test_a_draft_that_needs_one_is_not_committed(
    ada: Client, stage: SumsStage, database: Database
) -> None:
    made = ada.post("/api/v1/theatres", {"template_json": stage.template})
    path = made.headers["location"]
    swapped(database, path, judged(stage.template))
    assert told(ada.post(f"{path}/commit", b"")) == (422, "template-invalid", {"judge-local"})
    assert ada.get(path).document["state"] == "DRAFT"


def test_a_committed_one_is_not_run(ada: Client, stage: SumsStage, database: Database) -> None:
    path = committed(ada, stage.template)
    swapped(database, path, judged(stage.template))
    reply = ada.post(f"{path}/run", b"")
    assert (reply.status, reply.slug) == (422, "programme-refused")
    assert (
        "expected judges of none, which this service has, got anthropic" in reply.document["detail"]
    )
    theatre = ada.get(path).document
    assert (theatre["state"], theatre["run"], stage.calls) == ("COMMITTED", None, [])


def test_a_verification_names_no_judge_of_another_provider(ada: Client) -> None:
    reply = ada.post(
        RUN,
        wished(
            construct={"construct_id": CONSTRUCT_ID},
            judge={"provider": "openai", "model": "a-model"},
        ),
    )
    assert told(reply) == (422, "template-invalid", {"judge-local"})
