"""`echelon theatre cancel`, and what becomes of a theatre that did not begin in time."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from tests.theatre.cli.doubler import write_module, write_theatre
from tests.theatre.forked_echelon import forked
from theatre.api.commitments import commit_template
from theatre.api.template_files import require_valid
from theatre.api.workspace import Workspace, utc_now
from theatre.cli.exits import ExitCode
from theatre.engine.canonical_json import parse_object
from theatre.files.run_journal import EPISODES, read_trail

STEPS = ["created", "committed", "activated", "settling", "resolved"]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.from_environment({"ECHELON_HOME": str(tmp_path / "home")})


def committed(workspace: Workspace, *, days_ago: float = 0) -> str:
    """Commit a theatre so long ago; return its id."""
    folder = workspace.home.parent
    version = write_module(folder)
    path = write_theatre(folder, adapter_type="python", endpoint="doubling:double", version=version)
    theatre = asyncio.run(
        commit_template(
            require_valid(parse_object(path.read_bytes())),
            template_folder=folder,
            workspace=workspace,
            clock=lambda: utc_now() - timedelta(days=days_ago),
        )
    )
    return theatre.theatre_id


def steps(workspace: Workspace, theatre_id: str) -> list[object]:
    trail = read_trail(workspace.store.folder(theatre_id), theatre_id)
    return [entry["event_type"] for entry in trail]


def test_a_committed_theatre_is_cancelled_once_and_cannot_be_run(workspace: Workspace) -> None:
    theatre_id = committed(workspace)
    answer = forked("theatre", "cancel", theatre_id, "--json", home=workspace.home)
    assert answer.code == 0, answer.stderr
    assert (answer.document["state"], answer.document["outcome"]) == ("RESOLVED", "void")
    assert answer.document["outcome_reason"] == "cancelled"
    assert steps(workspace, theatre_id) == STEPS
    for command in ("cancel", "run"):
        refused = forked("theatre", command, theatre_id, home=workspace.home)
        assert (refused.code, "RESOLVED" in refused.stderr) == (ExitCode.WRONG_STATE, True)
    assert not (workspace.store.folder(theatre_id) / EPISODES).exists()


def test_a_theatre_that_is_overdue_is_refused_and_ends_void(workspace: Workspace) -> None:
    theatre_id = committed(workspace, days_ago=30.001)
    refused = forked("theatre", "run", theatre_id, home=workspace.home)
    assert refused.code == ExitCode.WRONG_STATE
    assert "and ends as void. Commit its template again" in refused.stderr
    view = workspace.store.view(theatre_id)
    assert view.resolution == {"outcome": "void", "outcome_reason": "not-closed-in-time"}
    assert steps(workspace, theatre_id) == STEPS
    assert not (view.folder / EPISODES).exists()


def test_a_theatre_of_its_last_day_still_runs(workspace: Workspace) -> None:
    theatre_id = committed(workspace, days_ago=29.9)
    answer = forked("theatre", "run", theatre_id, "--json", home=workspace.home)
    assert json.loads(answer.stdout)["outcome"] == "certified"
