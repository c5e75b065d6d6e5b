"""The examples of the description: each request is sent, each answer is one that was given.

`ECHELON_RECORD=1` records them anew; `echelon openapi > docs/openapi.json` writes them down.
"""

import base64
import json
import os
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path

import pytest

from backend.api.http.openapi import RECORDED
from backend.main import create_app
from backend.runtime import now
from tests.backend.databases import Database
from tests.backend.recorded_examples import WAIT, Recorded, Recorder, exchanges, shape
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import SumsStage
from tests.backend.test_ratings import answers, rated, waiting
from tests.backend.test_theatre_bridge import committed
from tests.backend.theatre_templates import cartograph
from tests.backend.verification_stage import RUN, finished, github, wished
from tests.theatre.echelon_process import until
from tests.theatre.runs import COIN
from theatre.engine.canonical_json import sha256_hex
from theatre.transparency.audits import AuditRequest

REFUSED_ALWAYS = {"settle_theatre"}
"""No release can do that yet: there is no answer to record."""


@pytest.fixture
def seen(database: Database, tmp_path: Path) -> Recorded:
    """Exchange everything with the service as it ships, and with one that asks people.

    One home: a database has one log, and so one key that signs it.
    """
    with served(create_app(settings_for(database, tmp_path))) as client:
        recorder = Recorder(client)
        for one in exchanges(cartograph()):
            recorder.exchange(one)
        signed = json.loads(
            client.get(recorder.filled("/certificates/{certificate_id}/sigstore")).body
        )
        statement = base64.b64decode(signed["dsseEnvelope"]["payload"])
        proof = f"/log/proof/{sha256_hex(statement)}"
        until(lambda: client.get(proof).status == HTTPStatus.OK, "the entry of the certificate")
        recorder.keep("get_proof", None, client.get(proof))
        audits(client.bearing(recorder.known["token"]), recorder, sha256_hex(statement))
    stage = rated(tmp_path / "stage")
    settings = settings_for(database, tmp_path, **stage.settings)
    with served(create_app(settings)) as client:
        asks_people(client, stage, recorder)
    with github() as repository:
        settings = settings_for(database, tmp_path, github_api_url=repository.root)
        with served(create_app(settings)) as client:
            verifies(client, recorder)
    return recorder.recorded


def audits(ada: Client, recorder: Recorder, statement: str) -> None:
    path = recorder.filled("/certificates/{certificate_id}")
    asked = AuditRequest.of(
        ada.get(f"{path}/document").document,
        statement_sha256=statement,
        draw=1,
        coin=COIN,
        open_by=now().replace(microsecond=0) + timedelta(days=30),
    )
    request = json.loads(bytes(asked))
    recorder.keep("request_audit", request, ada.post(f"{path}/audits", request))
    answer = {"request": request, "coin": COIN.secret.hex()}
    recorder.keep("answer_audit", answer, ada.post(f"{path}/audits/answer", answer))


def asks_people(client: Client, stage: SumsStage, recorder: Recorder) -> None:
    eve, bob = client.registered("eve"), client.registered("bob")
    path = waiting(eve, stage)
    asked = bob.get(f"{path}/hitl")
    recorder.keep("get_rating", None, asked)
    scores = answers(asked.document)
    recorder.keep("submit_scores", scores, bob.post(f"{path}/hitl/taste/scores", scores))
    recorder.keep("cancel_theatre", None, eve.ask("POST", f"{path}/cancel"))
    path = committed(eve, stage.template)
    recorder.keep("run_theatre", None, eve.ask("POST", f"{path}/run"))
    until(lambda: eve.get(path).document["pending_steps"], "the step that waits for people")
    recorder.keep("cancel_theatre", None, eve.ask("POST", f"{path}/cancel", headers=WAIT))


def verifies(client: Client, recorder: Recorder) -> None:
    zoe = client.registered("zoe")
    wanted = wished()
    asked = zoe.post(RUN, wanted)
    recorder.keep("run_verification", wanted, asked)
    job_id = asked.document["job_id"]
    withdrawn = zoe.post(RUN, wanted).document["job_id"]
    cancelled = zoe.ask("POST", f"/verification/cancel/{withdrawn}")
    assert cancelled.status == 202
    recorder.keep("cancel_verification", None, cancelled)
    finished(zoe, job_id)
    for operation, path in {
        "get_verification_status": f"/verification/status/{job_id}",
        "get_verification_result": f"/verification/result/{job_id}",
        "list_verification_certificates": "/verification/certificates",
    }.items():
        recorder.keep(operation, None, zoe.get(path))


def test_the_examples_are_what_the_service_answers(seen: Recorded) -> None:
    if os.environ.get("ECHELON_RECORD") == "1":
        RECORDED.write_text(json.dumps(seen, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    kept = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert {name: shape(one) for name, one in kept.items()} == {
        name: shape(one) for name, one in seen.items()
    }, "the answers have another shape now: see the top of this file"
