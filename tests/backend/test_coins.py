"""The coin in the service: drawn at the commitment, shown by nothing before the bundle has it."""

import base64
import json
from pathlib import Path

import psycopg
import pytest

from backend.database.embedded.cluster import SUPERUSER
from backend.database.sessions import APPLICATION
from tests.backend.databases import Database
from tests.backend.serving import Client
from tests.backend.sums_stage import SumsStage
from tests.backend.test_theatre_bridge import bundle_of, committed, run
from theatre.engine.coin import Coin

READ = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_bytes())["paths"]
"""The routes of the service, as they are described."""


def coin_of(database: Database, path: str) -> Coin:
    theatre_id = path.rpartition("/")[2]
    (row,) = database.rows("SELECT coin FROM theatre_coins WHERE theatre_id = %s", theatre_id)
    return Coin(row["coin"])


def said_of(client: Client, path: str) -> bytes:
    """Return what every route answers that reads something of a theatre, one behind another."""
    theatre_id = path.rpartition("/")[2]
    said = b""
    for route, methods in READ.items():
        is_stream = route.endswith("/events")
        if "get" in methods and route.count("{") == route.count("{theatre_id}") and not is_stream:
            said += client.get(route.replace("{theatre_id}", theatre_id)).body
    return said


def shows(said: bytes, coin: Coin) -> bool:
    forms = (coin.secret, coin.secret.hex().encode(), base64.b64encode(coin.secret)[:40])
    return any(form in said for form in forms)


def test_a_commitment_names_the_coin_and_no_route_shows_it(
    ada: Client, database: Database, stage: SumsStage
) -> None:
    path = committed(ada, stage.template)
    coin = coin_of(database, path)
    assert ada.get(f"{path}/commitment").document["coin_sha256"] == coin.sha256
    said = said_of(ada, path)
    assert coin.sha256.encode() in said
    assert not shows(said, coin)


def test_the_bundle_of_a_run_reveals_it(
    ada: Client, database: Database, stage: SumsStage, tmp_path: Path
) -> None:
    path = committed(ada, stage.template)
    coin = coin_of(database, path)
    assert run(ada, path).document["outcome"] == "certified"
    bundle = bundle_of(tmp_path / "home", path)
    assert (bundle / "coin.txt").read_bytes() == coin.line
    assert ada.get(f"{path}/evidence-bundle/coin.txt").body == coin.line
    assert ada.get(f"{path}/certificate").document["coin_sha256"] == coin.sha256


@pytest.mark.parametrize("ending", ["cancelled", "rehearsed"])
def test_what_ends_without_a_bundle_never_reveals_it(
    ada: Client, database: Database, stage: SumsStage, tmp_path: Path, ending: str
) -> None:
    path = committed(ada, stage.template)
    coin = coin_of(database, path)
    if ending == "cancelled":
        assert ada.ask("POST", f"{path}/cancel", headers={"Prefer": "wait=60"}).status == 200
    else:
        assert run(ada, path, is_certificate_run=False).document["outcome"] == "no_certificate"
    assert not shows(said_of(ada, path), coin)
    kept = [one for one in (tmp_path / "home" / "evidence").rglob("*") if one.is_file()]
    assert not [one for one in kept if shows(one.read_bytes(), coin)]


def test_each_commitment_draws_its_own_and_no_two_theatres_can_have_one(
    ada: Client, database: Database, stage: SumsStage
) -> None:
    paths = [committed(ada, stage.template) for _ in range(2)]
    one, other = (coin_of(database, path) for path in paths)
    assert one != other
    draft = ada.post("/api/v1/theatres", {"template_json": stage.template}).headers["location"]
    add = "INSERT INTO theatre_coins (theatre_id, coin) VALUES (%s, %s)"
    with database.connected(APPLICATION) as connection:
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute(add, (draft.rpartition("/")[2], one.secret))
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(add, (draft.rpartition("/")[2], one.secret[:31]))


def test_a_run_whose_coin_is_lost_calls_nobody_and_ends(
    ada: Client, database: Database, stage: SumsStage
) -> None:
    path = committed(ada, stage.template)
    with database.connected(SUPERUSER) as connection:
        # The database itself lets nobody do this.
        connection.execute("SET session_replication_role = replica")
        connection.execute("DELETE FROM theatre_coins")
    theatre = run(ada, path).document
    assert (theatre["state"], theatre["outcome"]) == ("RESOLVED", "failed")
    assert theatre["outcome_reason"] == "coin-lost"
    assert (theatre["progress"], database.rows("SELECT 1 FROM theatre_episode_scores")) == (0, [])
