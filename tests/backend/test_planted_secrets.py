"""A whole run with secrets planted wherever there are some; then everything it left is searched."""

import asyncio
import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
from psycopg import sql

from backend.database.embedded.cluster import SUPERUSER
from tests.backend.databases import Database
from tests.backend.serving import PASSWORD
from tests.backend.sums_stage import sums, sums_stage
from tests.backend.test_serve import serving
from tests.backend.theatre_templates import with_config
from tests.theatre.conftest import CONSTRUCT_ID
from tests.theatre.oracles.loopback import LoopbackServer, Received

HEADER_SECRET = "planted-5d0c71-header-secret"  # noqa: S105 - what must not turn up
QUERIED_SECRET = "planted-77aa02-in-a-query"  # noqa: S105 - as above
VERSION = "0123456789abcdef"
REGISTRY = """
[constructs.{name}]
url = "{url}"
headers_env = {{ Authorization = "SUMS_AUTHORIZATION" }}
"""
TELLING = 2
"""The number of the episode that is answered with the secret: an error, tried once more."""

KEY = {"name": "tool", "scopes": ["read", "write"], "expires_in_days": 1}


async def telltale(received: Received, writer: asyncio.StreamWriter) -> None:
    """Answer one question with the secret that came with it, in every place that there is."""
    asked, told = received.envelope, received.headers["authorization"]
    envelope: dict[str, object] = {
        "invocation_id": asked["invocation_id"],
        "construct_id": asked["construct_id"],
        "construct_version": VERSION,
        "status": "success",
        "output_data": {"sum": sum(asked["input_data"]["numbers"])},
    }
    if asked["input_data"]["numbers"][0] == TELLING:
        envelope |= {"output_data": {told: [told, f"x{told}x"]}, "error_detail": f"refused {told}"}
    body = json.dumps(envelope).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Told: {told}\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()


def spellings(secret: str) -> Iterator[bytes]:
    """Yield a secret as it may turn up: as it is, in hexadecimal, in Base64."""
    raw = secret.encode()
    yield raw
    yield raw.hex().encode()
    for offset in range(3):  # Base64 of a longer text has it at one of three offsets.
        yield base64.b64encode(b"x" * offset + raw)[4:-4]


def files_below(folder: Path) -> dict[str, bytes]:
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def columns_of(database: Database) -> dict[str, bytes]:
    """Return every value of every column of every table, by table and column."""
    found: dict[str, bytes] = {}
    with database.connected(SUPERUSER) as connection:
        tables = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        for table in tables:
            name = sql.Identifier(table["table_schema"], table["table_name"])
            for row in rows_of(connection, name):
                for column, value in row.items():
                    place = f"{table['table_name']}.{column}"
                    found[place] = found.get(place, b"") + as_bytes(value) + b"\n"
    return found


def rows_of(
    connection: psycopg.Connection[dict[str, object]], table: sql.Identifier
) -> list[dict[str, object]]:
    return connection.execute(sql.SQL("SELECT * FROM {}").format(table)).fetchall()


def as_bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value, default=str).encode()


def where(secrets: Mapping[str, str], texts: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """Return which secret stands where."""
    return [
        (name, place)
        for name, secret in secrets.items()
        for place, text in texts.items()
        if any(spelling in text for spelling in spellings(secret))
    ]


def test_no_secret_is_in_anything_that_a_run_leaves(database: Database, tmp_path: Path) -> None:
    stage = sums_stage(tmp_path / "stage", sums(8))
    construct = LoopbackServer(telltale)
    construct.start()
    registry = REGISTRY.format(name=CONSTRUCT_ID, url=f"{construct.url}/invoke")
    (stage.folder / "constructs.toml").write_text(registry)
    template = with_config(
        stage.template, adapter_type="http", adapter_endpoint=f"construct:{CONSTRUCT_ID}"
    )
    template["version_pins"] = {
        **template["version_pins"],
        "constructs": {CONSTRUCT_ID: VERSION},
        "adapter_version": "http@1",
    }
    variables = {
        "ECHELON_DATABASE_URL": database.application,
        "ECHELON_OUTBOUND_ALLOW": "127.0.0.1",
        "ECHELON_LOG_LEVEL": "debug",
        "SUMS_AUTHORIZATION": f"Bearer {HEADER_SECRET}",
        **stage.variables,
    }
    home = tmp_path / "home"
    try:
        with serving(home, **variables) as service:
            ada = service.client.registered("ada")
            key = str(ada.post("/keys", KEY).document["key"])
            tool = service.client.bearing(key)
            keyed = {"Idempotency-Key": "once"}
            made = tool.post("/theatres", {"template_json": template}, headers=keyed)
            path = made.headers["location"]
            assert tool.post(f"{path}/commit", b"", headers={"Cookie": key}).status == 200
            theatre = tool.post(f"{path}/run", b"", headers={"Prefer": "wait=60"}).document
            assert (theatre["state"], theatre["outcome_reason"]) == ("ARCHIVED", None)
            tool.get(f"{path}?token={QUERIED_SECRET}")
            told = {
                name: tool.get(f"{path}{name}").body
                for name in ("", "/audit-events", "/episodes", "/certificate", "/commitment")
            }
            exports = [
                service.client.get(f"{path}{name}").status
                for name in ("/replay", "/evidence-bundle")
            ]
            assert service.end() == 0
            log = service.log.read_bytes()
    finally:
        construct.stop()
    assert (theatre["outcome"], theatre["failure_count"], exports) == ("certified", 1, [200, 200])
    left = files_below(home / "evidence") | columns_of(database) | told | {"the log": log}
    assert {"users.password_hash", "theatre_episode_scores.line", "idempotency_keys.answer"} <= set(
        left
    )
    secrets = {
        "token": ada.headers["Authorization"].removeprefix("Bearer "),
        "key": key,
        "header": HEADER_SECRET,
        "password": PASSWORD,
        "query": QUERIED_SECRET,
        "environment": f"Bearer {HEADER_SECRET}",
    }
    assert where(secrets, left) == []
    # The search finds what is there: the construct did tell, and it was cut out.
    assert where({"cut": "[redacted]"}, left)
    assert len(construct.received) == 8 + 1
