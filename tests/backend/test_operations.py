"""What operators ask: alive, ready, which release, how it goes; and what the log says."""

import io
import json
import logging
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from backend.database.embedded import EmbeddedServer
from backend.database.embedded.cluster import SUPERUSER
from backend.database.migrations import head_revision
from backend.database.sessions import APPLICATION, OWNER
from backend.logs import JsonLines, redacted
from backend.main import create_app
from tests.backend.databases import A_TEMPLATE, A_USER, COMMITMENT, Database
from tests.backend.serving import Client, Reply, served, settings_for
from tests.theatre.echelon_process import until
from theatre.oracles.isolation.canary import probe_isolation
from theatre.oracles.isolation.means import PYTHON_ALONE


@pytest.fixture
def client(database: Database, tmp_path: Path) -> Iterator[Client]:
    with served(create_app(settings_for(database, tmp_path))) as client:
        yield client


def until_ready(client: Client) -> Reply:
    """Wait for its workers to register, and on a busy machine for an answer in time."""

    def ready() -> Reply | None:
        reply = client.get("/readyz")
        return reply if reply.status == 200 else None

    return until(ready, "the service to be ready")


def set_revision(database: Database, revision: str) -> None:
    with database.connected(OWNER) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", [revision])


def test_the_service_is_ready_while_its_database_has_its_revision(
    client: Client, database: Database, tmp_path: Path
) -> None:
    assert until_ready(client).document == {
        "status": "ready",
        "checks": ["database", "evidence-store", "worker"],
        "failing": [],
        "details": {"isolation": probe_isolation([tmp_path], PYTHON_ALONE).as_document()},
    }
    set_revision(database, "0000")
    refused = client.get("/readyz")
    assert (refused.status, refused.slug) == (503, "not-ready")
    assert refused.headers["retry-after"] == "1"
    assert client.get("/livez").document == {"status": "alive"}
    set_revision(database, head_revision())
    until_ready(client)


def test_the_service_is_ready_while_a_worker_is_heard_of(
    database: Database, tmp_path: Path
) -> None:
    alone = settings_for(database, tmp_path / "home", worker_in_api=False)
    with served(create_app(alone)) as client:
        assert client.get("/readyz").slug == "not-ready"
        beat = "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - %s::interval)"
        with database.connected(APPLICATION) as connection:
            connection.execute(beat, ["21 seconds"])
            assert client.get("/readyz").slug == "not-ready"
            connection.execute(beat, ["19 seconds"])
        assert client.get("/readyz").status == 200


def test_without_its_database_the_service_is_alive_and_not_ready(
    client: Client, database: Database, database_server: EmbeddedServer
) -> None:
    name = database.application.partition("?")[0].rpartition("/")[2]
    server = database_server.address(SUPERUSER, "postgres")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
    assert client.get("/readyz").slug == "not-ready"
    assert client.form("/auth/token", username="ada", password="x").slug == "not-ready"  # noqa: S106 - nobody's
    assert client.get("/livez").status == 200
    # What is left to tell is told.
    assert "theatre_theatres" not in client.get("/metrics").body.decode()
    assert "theatre_database_connections_limit" in client.get("/metrics").body.decode()


def test_the_version_names_release_and_revision(client: Client) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    assert client.get("/version").document == {
        "version": project["project"]["version"],
        "migration": head_revision(),
    }


def test_requests_are_counted_by_declared_route(client: Client) -> None:
    client.get("/livez")
    client.get("/no/such/<script>")
    client.ask("DELETE", "/api/v1/keys/018f0000-0000-7000-8000-000000000001")
    client.ask("PROPFIND", "/livez")
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    counted = [
        line
        for line in reply.body.decode().split("\n")
        if line.startswith("theatre_http_request_seconds_count")
    ]
    assert counted == [
        f"theatre_http_request_seconds_count{labels} 1.0"
        for labels in (
            '{method="GET",route="/livez",status="200"}',
            '{method="GET",route="unmatched",status="404"}',
            '{method="DELETE",route="/keys/{key_id}",status="401"}',
            '{method="other",route="/livez",status="405"}',
        )
    ]
    assert "theatre_http_requests_in_progress 1.0" in reply.body.decode()


PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
RESOLVED_AT = "2026-11-21T13:00:00Z"


def figures(client: Client) -> dict[str, float]:
    """What `/metrics` tells of theatres, runs and the database, by name and labels."""
    lines = client.get("/metrics").body.decode().splitlines()
    told = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in told if not name.startswith("theatre_http")}


def test_every_figure_has_its_line_in_the_operators_page(client: Client) -> None:
    written = client.get("/metrics").body.decode()
    listed = re.findall(r"^\| `(theatre_\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    told = re.findall(r"^# HELP (theatre_\w+)(?<!_created) ", written, re.MULTILINE)
    assert sorted(told) == sorted(listed)


def change(database: Database, theatre_id: str, **values: object) -> None:
    set_to = [sql.SQL("{} = {}").format(sql.Identifier(n), sql.Placeholder(n)) for n in values]
    statement = sql.SQL("UPDATE theatres SET {} WHERE id = {}")
    whole = statement.format(sql.SQL(", ").join(set_to), sql.Placeholder("theatre_id"))
    with database.connected(OWNER) as connection:
        connection.execute(whole, {**values, "theatre_id": theatre_id})


def test_theatres_and_runs_are_counted_from_the_rows_and_named_by_no_label(
    database: Database, tmp_path: Path
) -> None:
    database.add("users", A_USER)
    database.add("theatre_templates", A_TEMPLATE)
    draft, active, resolved = (f"018f0000-0000-7000-8000-00000000010{n}" for n in range(3))
    database.add_theatre(draft)
    for theatre_id in (active, resolved):
        database.add_theatre(theatre_id, **COMMITMENT)
        change(database, theatre_id, state="COMMITTED")
    counts = {"total_episodes": 9, "progress": 7, "failure_count": 2, "refused_count": 1}
    change(database, active, state="ACTIVE", run_status="running", **counts)
    for state in ("ACTIVE", "SETTLING"):
        change(database, resolved, state=state)
    change(database, resolved, state="RESOLVED", outcome="void", resolved_at=RESOLVED_AT)
    with served(create_app(settings_for(database, tmp_path, worker_in_api=False))) as client:
        told = figures(client)
    assert told.pop('theatre_database_connections{state="in_use"}') == 0
    assert told.pop('theatre_database_connections{state="idle"}') >= 1
    assert told == {
        "theatre_database_connections_limit": 10,
        'theatre_theatres{state="DRAFT"}': 1,
        'theatre_theatres{state="COMMITTED"}': 0,
        'theatre_theatres{state="ACTIVE"}': 1,
        'theatre_theatres{state="SETTLING"}': 0,
        'theatre_theatres{state="RESOLVED"}': 1,
        'theatre_theatres{state="ARCHIVED"}': 0,
        'theatre_state_transitions_total{to_state="COMMITTED"}': 2,
        'theatre_state_transitions_total{to_state="ACTIVE"}': 2,
        'theatre_state_transitions_total{to_state="SETTLING"}': 1,
        'theatre_state_transitions_total{to_state="RESOLVED"}': 1,
        'theatre_state_transitions_total{to_state="ARCHIVED"}': 0,
        'theatre_runs{status="queued"}': 0,
        'theatre_runs{status="running"}': 1,
        'theatre_runs{status="waiting_hitl"}': 0,
        'theatre_runs{status="waiting_budget"}': 0,
        'theatre_runs{status="succeeded"}': 0,
        'theatre_runs{status="failed"}': 0,
        'theatre_runs{status="cancelled"}': 0,
        'theatre_run_outcomes_total{outcome="certified"}': 0,
        'theatre_run_outcomes_total{outcome="no_certificate"}': 0,
        'theatre_run_outcomes_total{outcome="failed"}': 0,
        'theatre_run_outcomes_total{outcome="void"}': 1,
        "theatre_episodes_total": 7,
        "theatre_episode_failures_total": 2,
        "theatre_episode_refusals_total": 1,
    }


SECRETS = {
    "a token": "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl",
    "a key of ours": "echelon_key_" + "A1b-_" * 8 + "xyz",
    "a key of a model's vendor": "sk-ant-api03-AAAAAAAAAAAAAAAA",
    "a token of a forge": "ghp_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "a bearer credential": "Bearer plain-and-secret",
    "a password in an address": "postgresql://app:pa55word@db/echelon",
    "a token in a query": "/x?a=1&token=plain-and-secret&b=2",
    "a private key": "-----BEGIN EC PRIVATE KEY-----\nMHcCAQ\n-----END EC PRIVATE KEY-----",
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_blacked_out_wherever_it_turns_up(secret: str) -> None:
    shown = redacted(f"before {secret} after")
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    for part in (secret, "plain-and-secret", "pa55word", "MHcCAQ", "eyJ"):
        assert part not in shown


def test_what_is_no_secret_is_left() -> None:
    text = "theatre 018f0000-0000-7000-8000-000000000001 at https://example.org/a?b=c, sk-1"
    assert redacted(text) == text


def test_a_message_is_one_line_whoever_wrote_it() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("echelon.test")
    logger.propagate = False
    logger.addHandler(handler)
    logger.error(
        'x\n{"level": "info"}',
        exc_info=ValueError('Bearer abc\n{"level": "info"}'),
        extra={"fields": {"step": "sk-" + "a" * 20}},
    )
    (line,) = written.getvalue().splitlines()
    document = json.loads(line)
    assert document["level"] == "error"
    assert document["message"] == 'x\n{"level": "info"}'
    assert document["step"] == "[vendor]"
    assert "Bearer [bearer]" in document["exception"]
    assert document["at"].endswith("Z")
