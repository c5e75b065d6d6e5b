"""`echelon trust` and `echelon log`: keys are made, rotated, revoked and logged, and published."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.theatre.transparency.log_stage import signer
from theatre.api.log_network import HttpLog, LogUnreachableError, open_log
from theatre.cli import cli
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import NotFoundError
from theatre.transparency.notes import KeyKind, SignedCheckpoint
from theatre.transparency.trust import Trust


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test an issuer of its own."""
    folder = tmp_path / "home"
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(folder))
    return folder


def echelon(*arguments: str) -> str:
    """Run a command to its good end; return what it printed."""
    ended = CliRunner().invoke(cli, arguments)
    assert ended.exception is None, ended.output
    return ended.stdout


def documents(*arguments: str) -> dict[str, Any]:
    """Return what a command prints with `--json`."""
    document: dict[str, Any] = json.loads(echelon(*arguments, "--json"))
    return document


def test_keys_are_made_once_and_shown(home: Path) -> None:
    first = documents("trust", "show")
    assert documents("trust", "show") == first
    assert json.loads((home / "trust.json").read_text()) == first
    text = echelon("trust", "show")
    assert first["keys"][0]["kid"] in text
    assert first["log"]["vkey"] in text


def test_a_rotation_is_an_entry_of_the_log(home: Path) -> None:
    old = documents("trust", "show")["keys"][0]["kid"]
    keys = documents("trust", "rotate")["keys"]
    assert [key["kid"] for key in keys][:1] == [old]
    begun, ended = (parse_rfc3339(at) for at in (keys[1]["valid_from"], keys[0]["valid_until"]))
    assert (ended - begun <= timedelta(seconds=1), keys[1]["valid_until"]) == (True, None)
    entries = (home / "log" / "tile" / "entries" / "000.p" / "2").read_bytes()
    assert all(key["kid"].encode() in entries for key in keys)
    assert documents("log", "show")["size"] == 2


def test_the_key_that_signs_is_replaced_where_it_is_revoked(home: Path) -> None:
    first = documents("trust", "show")["keys"][0]["kid"]
    revoked = documents("trust", "revoke", first)
    assert [(key["kid"] == first, key["revoked_index"]) for key in revoked["keys"]] == [
        (True, 0),
        (False, None),
    ]
    assert Trust.parse((home / "trust.json").read_bytes()).as_document() == revoked
    ended = CliRunner().invoke(cli, ["trust", "revoke", "0" * 64])
    assert isinstance(ended.exception, NotFoundError)


def test_an_exported_log_is_what_any_web_server_can_publish(home: Path, tmp_path: Path) -> None:
    ended = CliRunner().invoke(cli, ["log", "export", str(tmp_path / "public")])
    assert isinstance(ended.exception, NotFoundError)
    for _ in range(2):
        echelon("trust", "rotate")
        echelon("log", "export", str(tmp_path / "public"))
    public = {path.name for path in (tmp_path / "public").rglob("*")}
    assert not {name for name in public if name.startswith(".") or name.endswith(".pem")}
    trust = Trust.parse((tmp_path / "public" / "trust.json").read_bytes())
    data = (tmp_path / "public" / "checkpoint").read_bytes()
    assert SignedCheckpoint.verify(data, [trust.log]).checkpoint.size == 4
    looked = documents(
        "monitor",
        str(tmp_path / "public"),
        "--trust",
        str(tmp_path / "public" / "trust.json"),
        "--home",
        str(tmp_path / "seen"),
    )
    assert (looked["new_entries"], looked["fork"], looked["faults"]) == (4, None, [])
    assert str(home) not in json.dumps(looked)


def test_a_monitor_asks_for_a_key_from_elsewhere(tmp_path: Path) -> None:
    ended = CliRunner().invoke(cli, ["monitor", str(tmp_path)])
    assert "a log cannot vouch for itself" in ended.output
    assert ended.exit_code == 2


def test_a_log_that_does_not_answer_is_an_error_and_no_fork() -> None:
    async def look() -> None:
        async with open_log("http://127.0.0.1:9") as store:
            assert isinstance(store, HttpLog)
            await store.read("checkpoint")

    with pytest.raises(LogUnreachableError, match=r"expected http://127\.0\.0\.1:9/checkpoint"):
        asyncio.run(look())


def test_a_policy_with_a_witness_is_taken_and_one_of_another_log_is_not(
    home: Path, tmp_path: Path
) -> None:
    vkey = documents("trust", "show")["log"]["vkey"]
    witness = signer("witness.example", KeyKind.WITNESS).key
    text = f"log {vkey}\nwitness w {witness} http://127.0.0.1:9\nquorum w\n"
    (tmp_path / "policy").write_text(text, encoding="utf-8")
    assert f"witness  {witness} http://127.0.0.1:9" in echelon(
        "trust", "policy", str(tmp_path / "policy")
    )
    assert documents("trust", "show")["policy"] == text
    other = text.replace(vkey, str(signer("log.example").key)).encode()
    for refused, why in ((other, "to name your log"), (b"# \xff\n" + other, "in UTF-8 in ")):
        (tmp_path / "policy").write_bytes(refused)
        ended = CliRunner().invoke(cli, ["trust", "policy", str(tmp_path / "policy")])
        assert f"expected the policy {why}" in str(ended.exception)
    assert json.loads((home / "trust.json").read_bytes())["policy"] == text
