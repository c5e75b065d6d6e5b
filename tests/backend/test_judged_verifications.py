"""Verifications over HTTP that a judge of the operator scores, and what qualifies it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.judged_stage import Treasury, judge_settings
from tests.backend.serving import Client, served, settings_for
from tests.backend.test_theatre_bridge import bundle_of, run
from tests.backend.verification_stage import FEW, RUN, finished, status
from tests.theatre.cli.test_qualified_verification import knowing, of_the_judge
from tests.theatre.echelon_process import until
from tests.theatre.forged_bundle import document, load
from tests.theatre.oracles.loopback import serving
from tests.theatre.qualified_runs import signed
from tests.theatre.runs import checked
from tests.theatre.verification.git_history import Commit, repository
from tests.theatre.verification.messages_server import MessagesService

MODEL = "a-model"
COMMITS = [
    Commit(message=b"Change %d" % n, files={b"m%d.py" % n: b"def added_%d(): pass\n" % n})
    for n in range(FEW)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Court:
    """A service with a judge, its user's client, and the operator's hand."""

    ada: Client
    judge: MessagesService
    treasury: Treasury
    home: Path

    def asked(self, **judge: Any) -> str:  # noqa: ANN401 - members of a judge
        """Ask for a judged verification; return its job."""
        wish = {
            "source": {"kind": "clone", "path": "ours", "limit": FEW},
            "construct": {"construct_id": "change_extractive"},
            "min_replays": FEW,
            "judge": {"provider": "anthropic", "model": MODEL, **judge},
        }
        reply = self.ada.post(RUN, wish)
        assert reply.status == 202, reply
        return str(reply.document["job_id"])

    def uploaded(self, data: bytes) -> str:
        jsonl = {"Content-Type": "application/x-ndjson"}
        reply = self.ada.post("/api/v1/datasets", data, headers=jsonl)
        return f"dataset:{reply.document['sha256']}"

    def certificate(self, job_id: str) -> dict[str, Any]:
        bundle = bundle_of(self.home, f"/api/v1/theatres/{job_id}")
        assert checked(bundle).consistent
        return document(load(bundle), "certificate.json")


@pytest.fixture(scope="module")
def court(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Court]:
    folder = tmp_path_factory.mktemp("judged")
    repository(folder / "clones" / "ours", COMMITS)
    # The keys of the service are older than what they sign here.
    signed(of_the_judge(MODEL), folder / "home" / "trust")
    judge = MessagesService(knowing)
    with serving(judge.respond) as server:
        judges = judge_settings("anthropic", f"http://127.0.0.1:{server.port}")
        clones = (folder / "clones",)
        settings = settings_for(module_database, folder / "home", clone_roots=clones, **judges)
        with served(create_app(settings)) as client:
            treasury = Treasury(database=module_database)
            ada = client.registered("ada")
            yield Court(ada=ada, judge=judge, treasury=treasury, home=folder / "home")


def test_a_judged_verification_waits_for_its_budget_and_goes_on_with_its_qualification(
    court: Court,
) -> None:
    court.treasury.allow("ada", 0)
    made = of_the_judge(MODEL)
    own = court.uploaded(signed(made, court.home / "trust"))
    job_id = court.asked(qualification=own)
    stops = ("waiting_budget", "finished")
    until(lambda: status(court.ada, job_id)["phase"] in stops, "a budget that is spent", pause=0.1)
    waiting = status(court.ada, job_id)
    assert (waiting["phase"], court.judge.requests) == ("waiting_budget", []), waiting
    assert waiting["error"].startswith("budget-spent: ")
    court.treasury.allow("ada", 10**7)
    run(court.ada, f"/api/v1/theatres/{job_id}")
    assert finished(court.ada, job_id)["outcome"] == "certified"
    assert {one["theatre_id"] for one in court.treasury.calls()} == {job_id}
    certificate = court.certificate(job_id)
    assert certificate["qualification"]["precision"]["qualified"] is True
    # Four changes bring too few control items to bear it out; recall and replies have none at all.
    assert {one for one in certificate["caps"] if one.startswith("measure")} == {
        f"measure-unqualified:{one}" for one in ("precision", "recall", "reply_accuracy")
    }
    result = court.ada.get(f"/api/v1/verification/result/{job_id}").document
    assert (result["scoring_model"], result["judge"]["model"]) == (MODEL, MODEL)


@pytest.mark.parametrize(
    ("model", "signer", "code", "why"),
    [
        (MODEL, "stranger", "template-invalid", "by a key that signs certificates here"),
        ("another", "home/trust", "qualification-refused", "of another judge"),
    ],
)
def test_what_another_signed_or_is_of_another_judge_is_committed_to_by_nothing(
    court: Court, model: str, signer: str, code: str, why: str
) -> None:
    file = court.uploaded(signed(of_the_judge(model), court.home.parent / signer))
    job_id = court.asked(qualification=file)
    seen = finished(court.ada, job_id)
    assert (seen["outcome"], seen["outcome_reason"], seen["commitment_hash"]) == (
        "failed", code, None,
    )  # fmt: skip
    assert why in seen["error"]
