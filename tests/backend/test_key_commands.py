"""`echelon key` as an operator uses it: make, list, revoke."""

import json
from pathlib import Path
from typing import Any

import pytest

from backend.main import create_app
from tests.backend.databases import A_USER, Database
from tests.backend.serving import served, settings_for
from theatre.cli import cli
from theatre.cli.exits import ExitCode, run_guarded


class Operator:
    """Types commands beside the service's database."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def key(self, *arguments: str) -> tuple[ExitCode, str, str]:
        code = run_guarded(cli, ["key", *arguments])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def document(self, *arguments: str) -> Any:  # noqa: ANN401 - JSON
        code, out, _ = self.key(*arguments, "--json")
        assert code is ExitCode.OK
        return json.loads(out)


@pytest.fixture
def operator(
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Operator:
    database.add("users", A_USER)
    database.add(
        "users", {**A_USER, "id": A_USER["id"][:-1] + "2", "username": "bob", "email": "b"}
    )
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path))
    monkeypatch.setenv("ECHELON_DATABASE_URL", database.application)
    return Operator(capsys)


CREATE = ("create", "--user", "ada", "--scope", "keys", "--name")


def test_keys_are_listed_the_newest_first_and_without_the_keys(operator: Operator) -> None:
    first, second = operator.document(*CREATE, "first"), operator.document(*CREATE, "second")
    listed = operator.document("list", "--user", "ada")["keys"]
    assert [one["name"] for one in listed] == ["second", "first"]
    assert listed[1] == {
        "id": first["id"],
        "name": "first",
        "scopes": ["keys"],
        "created_at": listed[1]["created_at"],
        "expires_at": first["expires_at"],
        "last_used_at": None,
        "revoked_at": None,
    }
    code, out, _ = operator.key("list", "--user", "ada")
    assert code is ExitCode.OK
    assert [line.split()[:2] for line in out.splitlines()[2:]] == [
        [second["id"], "second"],
        [first["id"], "first"],
    ]
    assert first["key"] not in out
    assert operator.document("list", "--user", "bob") == {"keys": []}


def test_a_revoked_key_is_refused_by_the_running_service(
    operator: Operator, database: Database, tmp_path: Path
) -> None:
    made = operator.document(*CREATE, "tool")
    with served(create_app(settings_for(database, tmp_path, worker_in_api=False))) as client:
        tool = client.bearing(made["key"])
        assert tool.get("/keys").status == 200
        code, out, _ = operator.key("revoke", made["id"], "--user", "ada")
        assert (code, out[:14]) == (ExitCode.OK, "tool: revoked ")
        assert tool.get("/keys").slug == "unauthenticated"
    first_time = operator.document("list", "--user", "ada")["keys"][0]["revoked_at"]
    assert operator.document("revoke", made["id"], "--user", "ada")["revoked_at"] == first_time


def test_a_key_of_somebody_else_is_not_revoked(operator: Operator) -> None:
    made = operator.document(*CREATE, "tool")
    code, _, err = operator.key("revoke", made["id"], "--user", "bob")
    assert (code, err) == (
        ExitCode.NOT_FOUND,
        "error (not-found): expected a key of this user, got none\n",
    )
    assert operator.document("list", "--user", "ada")["keys"][0]["revoked_at"] is None
