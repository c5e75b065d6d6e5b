"""One request and one answer for every operation, exchanged with a real service.

What is recorded stands in the description of the interface: its examples are answers that were
given, not answers that somebody imagined.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.backend.serving import PASSWORD, Client, Reply
from tests.theatre.echelon_process import until
from theatre.transparency.statements import BUNDLE_TYPE

NAME = re.compile(r"\{([a-z0-9_]+)\}")
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
LINES = {"Content-Type": "application/x-ndjson"}
WAIT = {"Prefer": "wait=60"}
SECRETS = {"access_token": "a-token", "key": "a-key-that-is-shown-once"}
BYTES = ("application/gzip", "application/octet-stream", "text/event-stream")
"""Kinds of answers that no example shows: no text, or without an end."""
MOST = 2
"""Lines of a text, and members of the one list that is long."""

A_DEBATE = {
    "schema_version": "2.0.0",
    "debate_id": "harbour_dredging",
    "run_id": "7c0f0f4e-2f0a-4a6d-9c39-6c1f2f8f3d11",
    "run_metadata": {"generation_mode": "mock"},
    "metadata": {"created_at": "2026-11-22T00:00:00Z"},
    "participants": [
        {"agent_id": "advocate", "role": "analyst"},
        {"agent_id": "sceptic", "role": "analyst"},
    ],
    "turns": [
        {
            "turn_id": "t0",
            "turn_index": 0,
            "speaker_id": "advocate",
            "content": "Dredge: two more ships a week can come in.",
        }
    ],
}
A_TURN = [
    {
        "event_type": "turn_opened",
        "detail": {"turn": {"turn_id": "t1", "turn_index": 1, "speaker_id": "sceptic"}},
    },
    {
        "event_type": "turn_accepted",
        "detail": {"turn_index": 1, "turn": {"content": "They pay less than it costs."}},
    },
]

A_REQUEST = {
    "form": "urn:echelon:audit-request:v1",
    "certificate_id": "018f0000-0000-7000-8000-00000000dead",
    "statement_sha256": "ab" * 32,
    "episode_root": "ab" * 32,
    "episodes": 4,
    "draw": 1,
    "coin_sha256": "ab" * 32,
    "open_by": "2026-12-24T00:00:00.000000Z",
}
AN_ANSWER = {"request": A_REQUEST, "coin": "ab" * 32}

Recorded = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request, and what of its answer later ones name; `{name}` stands for such a thing."""

    operation: str
    method: str = "GET"
    path: str
    body: Any = None
    """JSON; a text is sent as it is, a form as its fields."""
    headers: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """Name → member of the answer."""


def exchanges(template: object) -> list[Exchange]:
    """Return the exchanges of one owner with a service that knows the construct of `template`."""
    user = {"username": "ada", "email": "ada@example.org", "password": PASSWORD}
    theatre, certificate = "/theatres/{theatre_id}", "/certificates/{certificate_id}"
    wrapped = {"template_json": template}
    debate = "/debates/{debate_run_id}"
    episode = {"episode_id": "an-episode", "input_data": {"numbers": [1, 2]}, "expected": 3}
    return [
        Exchange(operation="alive", path="/livez"),
        Exchange(operation="ready", path="/readyz"),
        Exchange(operation="version", path="/version"),
        Exchange(operation="metrics", path="/metrics"),
        Exchange(operation="explain_problem", path="/problems/not-found"),
        Exchange(operation="register", method="POST", path="/auth/register", body=user),
        Exchange(
            operation="issue_token",
            method="POST",
            path="/auth/token",
            body={"username": "ada", "password": PASSWORD},
            headers=FORM,
            names={"token": "access_token"},
        ),
        Exchange(
            operation="change_password",
            method="POST",
            path="/auth/password",
            body={"old_password": PASSWORD, "new_password": f"{PASSWORD} 2"},
            names={"token": "access_token"},
        ),
        Exchange(
            operation="create_key",
            method="POST",
            path="/keys",
            body={"name": "nightly runs", "scopes": ["read", "write"], "expires_in_days": 90},
            names={"key_id": "id"},
        ),
        Exchange(operation="list_keys", path="/keys"),
        Exchange(operation="revoke_key", method="DELETE", path="/keys/{key_id}"),
        Exchange(
            operation="register_construct",
            method="POST",
            path="/constructs",
            body={"construct_id": "cartograph", "author": "Ada Lovelace"},
        ),
        Exchange(operation="list_constructs", path="/constructs"),
        Exchange(operation="get_judge_budgets", path="/judge-budgets"),
        Exchange(
            operation="upload_dataset",
            method="POST",
            path="/datasets",
            body=json.dumps(episode) + "\n",
            headers=LINES,
            names={"sha256": "sha256"},
        ),
        Exchange(operation="get_dataset", path="/datasets/{sha256}"),
        Exchange(
            operation="create_theatre", method="POST", path="/theatres?dry_run=true", body=wrapped
        ),
        Exchange(
            operation="create_theatre",
            method="POST",
            path="/theatres",
            body=wrapped,
            names={"theatre_id": "id", "template_id": "template_id"},
        ),
        Exchange(operation="list_theatres", path="/theatres"),
        Exchange(operation="get_theatre", path=theatre),
        Exchange(operation="commit_theatre", method="POST", path=f"{theatre}/commit", body={}),
        Exchange(
            operation="get_commitment",
            path=f"{theatre}/commitment",
            names={"hash": "commitment_hash"},
        ),
        Exchange(
            operation="run_theatre",
            method="POST",
            path=f"{theatre}/run",
            body={"is_certificate_run": True},
            headers=WAIT,
            names={"certificate_id": "certificate_id"},
        ),
        Exchange(operation="watch_theatre", path=f"{theatre}/events"),
        Exchange(operation="get_theatre_certificate", path=f"{theatre}/certificate"),
        Exchange(operation="get_certificate", path=certificate),
        Exchange(operation="get_certificate_document", path=f"{certificate}/document"),
        Exchange(operation="get_signed_certificate", path=f"{certificate}/sigstore"),
        Exchange(operation="get_record", path="/constructs/cartograph/record"),
        Exchange(operation="get_trust", path="/.well-known/echelon/trust.json"),
        Exchange(operation="get_checkpoint", path="/log/checkpoint"),
        Exchange(operation="get_tile", path="/log/tile/entries/000.p/1"),
        Exchange(operation="list_certificates", path="/certificates?construct_id=cartograph"),
        Exchange(operation="get_routing", path="/constructs/cartograph/routing"),
        Exchange(operation="list_audit_events", path=f"{theatre}/audit-events?limit=2"),
        Exchange(operation="list_episodes", path=f"{theatre}/episodes?limit=2"),
        Exchange(operation="get_episode", path=f"{theatre}/episodes/cartograph-0001"),
        Exchange(operation="get_evidence_bundle", path=f"{theatre}/evidence-bundle"),
        Exchange(operation="get_evidence_file", path=f"{theatre}/evidence-bundle/SHA256SUMS"),
        Exchange(operation="get_evidence_file", path=f"{theatre}/evidence-bundle/manifest.json"),
        Exchange(operation="get_replay", path=f"{theatre}/replay"),
        Exchange(operation="get_verifier", path="/verify_bundle.py"),
        Exchange(operation="list_templates", path="/templates"),
        Exchange(operation="get_template", path="/templates/{template_id}"),
        Exchange(
            operation="submit_debate",
            method="POST",
            path="/debates?goes_on=true",
            body=A_DEBATE,
            names={"debate_run_id": "id"},
        ),
        Exchange(
            operation="submit_debate", method="POST", path="/debates?goes_on=true", body=A_DEBATE
        ),
        Exchange(operation="list_debates", path="/debates?limit=1"),
        Exchange(operation="get_debate", path=debate),
        Exchange(
            operation="append_debate_events",
            method="POST",
            path=f"{debate}/events",
            body={"events": A_TURN},
        ),
        Exchange(operation="list_debate_events", path=f"{debate}/events?limit=1"),
        Exchange(operation="get_debate_artefact", path=f"{debate}/artefact"),
        Exchange(
            operation="evaluate_debate",
            method="POST",
            path=f"{debate}/evaluations",
            body={"evaluators": ["pid", "raudit"], "labels": {"*": "BUY"}},
        ),
        Exchange(operation="list_debate_evaluations", path=f"{debate}/evaluations"),
    ]


@dataclass(slots=True)
class Recorder:
    """Exchanges, and keeps what was said."""

    client: Client
    known: dict[str, str] = field(default_factory=dict)
    recorded: Recorded = field(default_factory=dict)

    def exchange(self, one: Exchange) -> Reply:
        """Send a request, remember what later ones name, and keep both sides."""
        client = self.client.bearing(self.known["token"]) if "token" in self.known else self.client
        headers = {"Content-Type": "application/json", **one.headers}
        path, body = self.filled(one.path), _bytes(one, headers)

        def answered() -> Reply | None:
            reply = client.ask(one.method, path, body=body, headers=headers)
            # A machine that is busy is not ready in time; nothing was done then.
            return None if reply.status == 503 else reply

        reply = until(answered, f"an answer to {one.operation}", pause=0.1)
        assert reply.status < 300, (one, reply)
        for name, member in one.names.items():
            self.known[name] = reply.document[member]
        self.keep(one.operation, one.body, reply)
        return reply

    def keep(self, operation: str, body: object, reply: Reply) -> None:
        """Keep both sides of an exchange."""
        kept = self.recorded.setdefault(operation, {"responses": {}})
        if body is not None:
            kept["request"] = body
        media_type = reply.headers["content-type"].partition(";")[0]
        if media_type not in BYTES:
            kept["responses"].setdefault(str(reply.status), {})[media_type] = _shown(reply)

    def filled(self, text: str) -> str:
        return NAME.sub(lambda found: self.known[found[1]], text)


def _bytes(one: Exchange, headers: Mapping[str, str]) -> bytes | None:
    if one.body is None:
        return None
    if isinstance(one.body, str):
        return one.body.encode()
    if headers["Content-Type"] == FORM["Content-Type"]:
        return urlencode(one.body).encode()
    return json.dumps(one.body).encode()


def _shown(reply: Reply) -> object:
    """Return a body as an example: no secrets, no frozen schemas, and long ones cut."""
    if not reply.headers["content-type"].startswith(("application/json", BUNDLE_TYPE)):
        return "".join(reply.body.decode().splitlines(keepends=True)[:MOST])
    document = {
        name: member[:MOST] if name == "file_inventory" else member
        for name, member in reply.document.items()
    }
    document.update({name: text for name, text in SECRETS.items() if name in document})
    if "openings" in document:
        # Which episode is opened, and so what there is of it, is drawn.
        document["template"] = {"theatre_id": document["template"]["theatre_id"]}
        document["openings"] = [{"seq": one["seq"]} for one in document["openings"]]
    if "json_schema" in document:
        document["json_schema"] = {"$id": document["json_schema"]["$id"]}
    return document


def shape(value: object) -> object:
    """Return what stays the same from one recording to the next: members and their types."""
    if isinstance(value, dict):
        return {name: shape(member) for name, member in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if type(value) in (int, float) else type(value).__name__
