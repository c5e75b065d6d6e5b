"""Verifications over HTTP: the whole flow, whose they are, and what may be named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for
from tests.backend.verification_stage import (
    FEW,
    GitHubStage,
    asked,
    finished,
    github,
)


@pytest.fixture
def stage() -> Iterator[GitHubStage]:
    with github() as stage:
        yield stage


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def anybody(database: Database, home: Path, stage: GitHubStage) -> Iterator[Client]:
    settings = settings_for(database, home, github_api_url=stage.root)
    with served(create_app(settings)) as client:
        yield client


def test_pull_requests_become_a_theatre_with_both_certificates(anybody: Client) -> None:
    ada = anybody.registered("ada")
    job_id = asked(ada)
    seen = finished(ada, job_id)
    assert (seen["outcome"], seen["outcome_reason"], seen["error"]) == ("certified", None, None)
    print(seen)
    result = ada.get(f"/api/v1/verification/result/{job_id}")
    print(result)
    assert result.status == 200
    listed = anybody.get("/api/v1/verification/certificates")
    print(listed)
    assert FEW
    assert 0
