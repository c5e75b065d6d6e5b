"""Human scores over HTTP: who is asked what, who may answer, and that the run goes on."""

import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backend.database.sessions import POOL_SIZE
from backend.main import create_app
from backend.runtime import now
from tests.backend.databases import Database
from tests.backend.log_rows import await_logged, record_of_rows
from tests.backend.serving import Client, Reply, at_once, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_serve import serving
from tests.backend.test_theatre_bridge import bundle_of, committed, run
from tests.backend.test_theatre_routes import NOBODYS
from tests.backend.test_uncalled import swept
from tests.theatre.conftest import CONSTRUCT_ID
from tests.theatre.echelon_process import until
from tests.theatre.rated_runs import AGGREGATE, rating, rubric_step


def rated(folder: Path, **step: Any) -> SumsStage:  # noqa: ANN401 - members of the step
    call = {"step_id": "add", "type": "construct_invocation", "construct_id": CONSTRUCT_ID}
    return sums_stage(
        folder,
        sums(4),
        template_changes={
            "resolution_programme": [call, rubric_step(**step), AGGREGATE],
            "hitl_steps": [rating(criterion_id="addition", items=2)],
            "metadata": {"author": "Template Author"},
        },
    )


@pytest.fixture
def stage(tmp_path: Path) -> SumsStage:
    return rated(tmp_path / "stage")


def answers(asked: dict[str, Any], value: float = 4, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    scores = [{"episode_id": item["episode_id"], "value": value} for item in asked["items"]]
    return {"scores": scores, "rubric_sha256": asked["rubric_sha256"], **changes}


def waiting(owner: Client, stage: SumsStage) -> str:
    path = committed(owner, stage.template)
    theatre = run(owner, path).document
    assert (theatre["state"], theatre["run"]["status"]) == ("SETTLING", "waiting_hitl")
    assert theatre["pending_steps"] == ["taste"]
    return path


def score(scorer: Client, path: str, body: object) -> Reply:
    return scorer.post(f"{path}/hitl/taste/scores", body, headers={"Prefer": "wait=5"})


def test_what_waits_for_people_past_its_day_is_ended_once(
    client: Client, stage: SumsStage, tmp_path: Path, database: Database
) -> None:
    ada = client.registered("ada")
    path = waiting(ada, stage)
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    late = now() + timedelta(days=31)
    assert [swept(database, settings, late) for _ in range(2)] == [1, 0]
    theatre = ada.get(path).document
    assert (theatre["outcome"], theatre["outcome_reason"]) == ("void", "not-closed-in-time")
    assert (theatre["run"]["status"], theatre["pending_steps"]) == ("cancelled", [])
    assert score(client.registered("bob"), path, {}).status >= 400
    await_logged(database, 2)
    (logged,) = record_of_rows(database).commitments.values()
    assert logged.void_reason == "abandoned"


def test_when_enough_people_have_scored_the_run_goes_on(
    client: Client, stage: SumsStage, tmp_path: Path, database: Database
) -> None:
    ada, bob, eve = map(client.registered, ("ada", "bob", "eve"))
    path = waiting(ada, stage)
    asked = bob.get(f"{path}/hitl").document
    assert (asked["step_id"], asked["minimum_scorers"], asked["complete_scorers"]) == (
        "taste",
        2,
        0,
    )
    assert asked["scoring_scale"] == {"min": 1, "max": 5, "labels": {"1": "badly", "5": "well"}}
    assert len(asked["items"]) == 2
    assert set(asked["items"][0]) == {"episode_id", "input_data", "answers"}
    first = score(bob, path, answers(asked))
    assert (first.status, first.document["enough"]) == (200, False)
    assert score(eve, path, answers(asked, 5)).document["enough"] is True
    until(lambda: ada.get(path).document["state"] == "ARCHIVED", "the end of the run")
    theatre = ada.get(path).document
    assert (theatre["outcome"], theatre["pending_steps"]) == ("certified", [])
    rows = database.rows("SELECT identity, score FROM human_scores ORDER BY identity, episode_seq")
    assert [(row["identity"], row["score"]) for row in rows] == [
        ("bob", 4),
        ("bob", 4),
        ("eve", 5),
        ("eve", 5),
    ]
    resolution = bundle_of(tmp_path / "home", path) / "resolution.json"
    steps = json.loads(resolution.read_bytes())["steps"]
    assert steps[1]["result"] == {"items": 2, "scorers": 2, "human_mean": 0.875}
    assert ada.get(f"{path}/hitl").slug == "invalid-transition"


def test_a_stranger_is_told_nothing_of_what_does_not_wait(client: Client, stage: SumsStage) -> None:
    ada, bob = map(client.registered, ("ada", "bob"))
    draft = ada.post("/theatres", {"template_json": stage.template}).headers["location"]
    ready = committed(ada, stage.template)
    over = waiting(ada, stage)
    asked = answers(bob.get(f"{over}/hitl").document)
    assert ada.post(f"{over}/cancel", b"", headers={"Prefer": "wait=60"}).status == 200
    nowhere = f"/api/v1/theatres/{NOBODYS}"
    for path in (draft, ready, over):
        for stranger, owner in (
            (bob.get(f"{path}/hitl"), ada.get(f"{path}/hitl")),
            (score(bob, path, asked), score(ada, path, asked)),
        ):
            theatre_id = path.rpartition("/")[2]
            there_is_none = bob.get(f"{nowhere}/hitl")
            assert stranger.status == 404
            detail = there_is_none.document["detail"].replace(NOBODYS, theatre_id)
            assert without_instance(stranger) == without_instance(there_is_none) | {
                "detail": detail
            }
            assert owner.slug == "invalid-transition"


def without_instance(reply: Reply) -> dict[str, Any]:
    return {name: value for name, value in reply.document.items() if name != "instance"}


def test_who_may_not_score_and_what_may_not_be_scored(client: Client, stage: SumsStage) -> None:
    ada, bob = client.registered("ada"), client.registered("bob")
    author = client.registered("sum-author")
    path = waiting(ada, stage)
    asked = bob.get(f"{path}/hitl").document
    whole = answers(asked)
    refusals = {
        "owner": score(ada, path, whole),
        "off the scale": score(bob, path, answers(asked, 6)),
        "a part": score(bob, path, {**whole, "scores": whole["scores"][:1]}),
        "another rubric": score(bob, path, answers(asked, rubric_sha256="ab" * 32)),
        "more than there is": score(
            bob, path, {**whole, "scores": [*whole["scores"], *whole["scores"]]}
        ),
        "another step": bob.post(f"{path}/hitl/other/scores", whole),
        "nobody": score(client, path, whole),
    }
    assert {why: (one.status, one.slug) for why, one in refusals.items()} == {
        "owner": (403, "identity-separation"),
        "off the scale": (422, "human-score-refused"),
        "a part": (422, "human-score-refused"),
        "another rubric": (422, "human-score-refused"),
        "more than there is": (422, "human-score-refused"),
        "another step": (422, "human-score-refused"),
        "nobody": (401, "unauthenticated"),
    }
    assert score(author, path, whole).status == 200
    assert score(bob, path, whole).status == 200


def test_nobody_scores_twice_not_even_at_once(client: Client, stage: SumsStage) -> None:
    ada, bob = client.registered("ada"), client.registered("bob")
    path = waiting(ada, stage)
    asked = bob.get(f"{path}/hitl").document
    # More than there are connections to the database, of which each needs two.
    replies = at_once(POOL_SIZE + 5, lambda: score(bob, path, answers(asked)))
    assert Counter(reply.status for reply in replies) == {200: 1, 409: POOL_SIZE + 4}
    assert {one.slug for one in replies if one.status == 409} == {"duplicate-submission"}


def test_a_theatre_that_waits_can_be_cancelled(client: Client, stage: SumsStage) -> None:
    ada = client.registered("ada")
    path = waiting(ada, stage)
    theatre = ada.post(f"{path}/cancel", b"", headers={"Prefer": "wait=60"}).document
    assert (theatre["state"], theatre["outcome"], theatre["run"]["status"]) == (
        "RESOLVED",
        "void",
        "cancelled",
    )
    assert theatre["pending_steps"] == []


def test_people_have_as_long_as_was_committed(database: Database, tmp_path: Path) -> None:
    stage = rated(tmp_path / "late", timeout_seconds=1)
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = waiting(ada, stage)
        until(lambda: ada.get(path).document["state"] == "RESOLVED", "the end of the run")
        theatre = ada.get(path).document
    assert (theatre["outcome"], theatre["outcome_reason"]) == ("failed", "hitl-timeout")


def test_a_theatre_waits_on_when_the_service_starts_again(
    database: Database, tmp_path: Path, stage: SumsStage
) -> None:
    variables = {"ECHELON_DATABASE_URL": database.application, **stage.variables}
    with serving(tmp_path / "home", "first", **variables) as first:
        ada = first.client.registered("ada")
        path = waiting(ada, stage)
        assert first.end() == 0
    with serving(tmp_path / "home", "second", **variables) as second:
        again = Client(second.client.port, ada.headers)

        def waits() -> bool:
            return bool(again.get(path).document["run"]["status"] == "waiting_hitl")

        until(waits, "the theatre to wait again")
        assert again.get(f"{path}/hitl").status == 200
        assert second.end() == 0
