"""Schemathesis against a real service: what the description promises is kept, for two users."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.recorded_examples import A_DEBATE, LINES
from tests.backend.serving import PASSWORD, Client, served, settings_for
from tests.backend.test_theatre_bridge import committed, run
from tests.backend.theatre_templates import cartograph

SCHEMATHESIS = Path(sys.executable).with_name("st")
HERE = Path(__file__).parent
DESCRIPTION = HERE.parents[1] / "docs" / "openapi.json"
EXAMPLES = 100 if os.environ.get("ECHELON_SOAK") == "1" else 3
CONFIGURED = HERE / "schemathesis.toml"


@pytest.fixture
def client(database: Database, tmp_path: Path) -> Iterator[Client]:
    # Repositories that are drawn are asked of nobody.
    settings = settings_for(database, tmp_path / "home", github_api_url="http://127.0.0.1:9")
    with served(create_app(settings)) as client:
        yield client


def test_schemathesis_finds_nothing(client: Client, tmp_path: Path) -> None:
    """All checks and phases; two users who must not see each other's things."""
    ada, bob = (with_own_password(client.registered(name)) for name in ("ada", "bob"))
    certified = run(ada, committed(ada, cartograph())).document
    written(tmp_path, "theatre_id", certified["id"], *theatres(ada), *theatres(bob))
    written(tmp_path, "certificate_id", certified["certificate_id"])
    written(tmp_path, "sha256", upload(ada))
    written(tmp_path, "debate_run_id", *map(debate, (ada, bob)))
    written(tmp_path, "job_id", verification(ada), verification(bob))
    users = [user("ada", ada), user("bob", bob)]
    (tmp_path / "users.json").write_text(json.dumps({"auth": users}))
    (tmp_path / "schemathesis.toml").write_text(CONFIGURED.read_text())
    told = subprocess.run(
        [
            SCHEMATHESIS,
            "run",
            DESCRIPTION,
            f"--url=http://127.0.0.1:{client.port}",
            "--checks=all",
            f"--max-examples={EXAMPLES}",
            "--generation-deterministic",
            "--no-color",
        ],
        cwd=tmp_path,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, findings(told.stdout) + told.stderr


def findings(printed: str) -> str:
    """Return what was found, without the bodies that were long only to be too long."""
    _, _, found = printed.partition("= FAILURES =")
    return "\n".join(line[:400] for line in (found or printed).splitlines())


def with_own_password(owner: Client) -> Client:
    """Change the password: it is the description's example, and who sends that ends tokens."""
    changed = {"old_password": PASSWORD, "new_password": f"{PASSWORD} of nobody's example"}
    return owner.bearing(owner.post("/auth/password", changed).document["access_token"])


def theatres(owner: Client) -> list[str]:
    """Make a DRAFT and a COMMITTED theatre."""
    draft = owner.post("/theatres", {"template_json": cartograph()}).document["id"]
    return [draft, committed(owner, cartograph()).rpartition("/")[2]]


def verification(owner: Client) -> str:
    """Ask for one, of a clone that nobody has."""
    source = {"kind": "clone", "path": "nowhere"}
    asked = {"source": source, "construct": {"construct_id": "change_extractive"}}
    return str(owner.post("/verification/run", asked).document["job_id"])


def upload(owner: Client) -> str:
    return str(owner.ask("POST", "/datasets", body=b"{}", headers=LINES).document["sha256"])


def debate(owner: Client) -> str:
    return str(owner.post("/debates?goes_on=true", A_DEBATE).document["id"])


def user(name: str, client: Client) -> dict[str, object]:
    credential = {"name": "Authorization", "value": client.headers["Authorization"]}
    return {"name": name, "fixedHeaders": [credential]}


def written(folder: Path, name: str, *values: str) -> None:
    (folder / f"{name}.txt").write_text("".join(f'"{value}"\n' for value in values))
