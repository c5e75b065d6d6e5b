"""What operators ask: alive, ready, which release, how it goes; and what the log says."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from backend.database.embedded import EmbeddedServer
from backend.database.embedded.cluster import SUPERUSER
from backend.database.migrations import head_revision
from backend.database.roles import OWNER
from backend.logs import JsonLines, redacted
from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for


@pytest.fixture
def client(database: Database, tmp_path: Path) -> Iterator[Client]:
    with served(create_app(settings_for(database, tmp_path))) as client:
        yield client


def set_revision(database: Database, revision: str) -> None:
    with database.connected(OWNER) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", [revision])


def test_the_service_is_ready_while_its_database_has_its_revision(
    client: Client, database: Database
) -> None:
    assert client.get("/readyz").document == {"status": "ready", "checks": ["database"]}
    set_revision(database, "0001")
    refused = client.get("/readyz")
    assert (refused.status, refused.slug) == (503, "not-ready")
    assert refused.headers["retry-after"] == "1"
    assert client.get("/livez").document == {"status": "alive"}
    set_revision(database, head_revision())
    assert client.get("/readyz").status == 200


def test_without_its_database_the_service_is_alive_and_not_ready(
    client: Client, database: Database, database_server: EmbeddedServer
) -> None:
    name = database.application.partition("?")[0].rpartition("/")[2]
    server = database_server.address(SUPERUSER, "postgres")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
            [name],
        )
    assert client.get("/readyz").slug == "not-ready"
    assert client.form("/auth/token", username="ada", password="x").slug == "not-ready"  # noqa: S106 - nobody's
    assert client.get("/livez").status == 200


def test_the_version_names_release_and_revision(client: Client) -> None:
    assert client.get("/version").document == {"version": "0.1.0", "migration": head_revision()}


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
