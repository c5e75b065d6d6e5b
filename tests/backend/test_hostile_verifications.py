"""Names in a request for a verification that are modules, programs, paths, addresses or secrets."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for
from tests.backend.test_planted_secrets import columns_of, files_below, where
from tests.backend.test_serve import serving
from tests.backend.verification_stage import (
    EXTRACTIVE,
    FEW,
    RUN,
    GitHubStage,
    asked,
    finished,
    github,
    status,
    wished,
)
from tests.theatre.echelon_process import until
from tests.theatre.verification.git_history import Commit, repository

REPOSITORIES = (
    *("https://gitlab.com/o/n", "github.com/o/n", "o", "o/n/pulls", "o/..", "../n", "o/."),
    *("o/n?x=1", "o/n#x", "o/n ", "o//n", "o\\n", "o/%2e%2e", "user@host/n", "-o/n", "o/n\n"),
    *("o/ñ", ""),
)
SEGMENTS = (
    *("../outside", "inside/../../outside", "/etc", "./ours", "ours/..", "ours//sub", "~/ours"),
    *("file:///etc", "ours\0", ".git", "-c", "", "."),
)
RANGES = ("--all", "-n1", ":/secret", "HEAD^{/secret}", "@{upstream}", "HEAD --all", "$(id)", "")
TOKEN = "ghp_planted0123456789planted0123456789"  # noqa: S105 - what must not turn up


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clones below and beside the operator's folder, and ways that lead out of it."""
    folder = tmp_path_factory.mktemp("hostile")
    commits = [Commit(message=b"One", files={b"a.py": b"x = 1\n"})] * FEW
    outside = repository(folder / "outside", commits)
    # The operator's folder lies within another clone: git would find that one by itself.
    clones = repository(folder / "within", commits) / "clones"
    (clones / "plain folder").mkdir(parents=True)
    (clones / "plain").mkdir()
    (clones / "linked").symlink_to(outside)
    (clones / "pointing").mkdir()
    (clones / "pointing" / ".git").write_text(f"gitdir: {outside / '.git'}\n")
    return folder


@pytest.fixture(scope="module")
def ada(module_database: Database, folder: Path) -> Iterator[Client]:
    settings = settings_for(
        module_database,
        folder / "home",
        clone_roots=(folder / "within" / "clones",),
        # Nobody is asked: what is refused before is the subject.
        github_api_url="http://127.0.0.1:9",
    )
    with served(create_app(settings)) as client:
        yield client.registered("ada")


def refused(client: Client, **changes: Any) -> str:  # noqa: ANN401 - members of a request
    reply = client.post(RUN, wished(**changes))
    assert reply.status == 422, (changes, reply)
    return reply.slug


def test_only_names_are_taken_for_repositories_clones_and_ranges(
    ada: Client, module_database: Database
) -> None:
    for name in REPOSITORIES:
        source = {"kind": "github", "repository": name}
        assert refused(ada, source=source) == "validation-error", name
    for path in SEGMENTS:
        source = {"kind": "clone", "path": path}
        assert refused(ada, source=source) == "validation-error", path
    for commits in RANGES:
        source = {"kind": "clone", "path": "ours", "commit_range": commits}
        assert refused(ada, source=source) == "validation-error", commits
    others: list[dict[str, object]] = [
        {"kind": "records", "dataset": "dataset:../../x"},
        {"kind": "url", "url": "http://127.0.0.1/"},
        {"kind": "github", "repository": "o/n", "url": "http://127.0.0.1/"},
        {"kind": "github", "repository": "o/n", "token": TOKEN},
        {"kind": "github", "repository": "o/n", "limit": 1},
    ]
    for other in others:
        assert refused(ada, source=other) == "validation-error", other
    assert module_database.rows("SELECT id FROM verifications") == []


def test_no_module_program_or_closed_address_can_be_named_as_a_construct(
    ada: Client, folder: Path, module_database: Database
) -> None:
    marker = folder / "marker"
    (folder / "hostile_module.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    for one in ("hostile_module:run", "construct:x", "../x", "", "a/b", sys.executable):
        assert refused(ada, construct={"construct_id": one}) == "validation-error", one
    for more in ("module", "callable", "argv", "type", "folder", "headers"):
        construct = {**EXTRACTIVE, more: "hostile_module"}
        assert refused(ada, construct=construct) == "validation-error", more
    assert refused(ada, construct={"construct_id": "hostile_module"}) == "construct-unknown"
    for endpoint, slug in (
        ("hostile_module:run", "endpoint-not-allowed"),
        (f"file://{folder}/hostile_module.py", "endpoint-not-allowed"),
        ("http://user:secret@example.org/", "endpoint-not-allowed"),
        ("http://0x7f000001/", "endpoint-not-allowed"),
        ("http://127.0.0.1:5432/", "address-not-allowed"),
        ("http://169.254.169.254/latest/meta-data", "address-not-allowed"),
        (f"https://example.org/?token={TOKEN}", "template-invalid"),
    ):
        construct = {"construct_id": "theirs", "endpoint": endpoint}
        reply = ada.post(RUN, wished(construct=construct))
        assert (reply.status, reply.slug) == (422, slug), endpoint
        assert endpoint not in reply.body.decode()
        assert TOKEN not in reply.body.decode()
    assert not marker.exists()
    assert module_database.rows("SELECT id FROM verifications") == []


def test_no_path_leads_to_a_clone_that_is_not_let_read(ada: Client, folder: Path) -> None:
    jobs = {
        path: asked(ada, source={"kind": "clone", "path": path})
        for path in ("linked", "pointing", "plain", "nowhere")
    }
    for path, job_id in jobs.items():
        seen = finished(ada, job_id)
        assert (seen["outcome"], seen["outcome_reason"]) == ("failed", "repository-unreadable")
        assert seen["error"].startswith("expected a clone below a folder that the operator"), path
        assert str(folder) not in seen["error"]


def test_the_token_goes_to_listed_repositories_only_and_is_written_nowhere(
    database: Database, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with github(gate_at=5) as stage:
        variables = {
            "ECHELON_DATABASE_URL": database.application,
            "ECHELON_GITHUB_API_URL": stage.root,
            "ECHELON_GITHUB_TOKEN_FOR": "O/*",
            "ECHELON_LOG_LEVEL": "debug",
            "GITHUB_TOKEN": TOKEN,
        }
        with serving(home, **variables) as service:
            ada = service.client.registered("ada")
            job_id = asked(ada)
            during = files_while_it_reads(stage, home)
            other = {"kind": "github", "repository": "p/n"}
            unlisted = finished(ada, asked(ada, source=other))
            seen = finished(ada, job_id)
            told = {
                name: ada.get(path).body
                for name, path in {
                    "status": f"/verification/status/{job_id}",
                    "result": f"/verification/result/{job_id}",
                    "commitment": f"/theatres/{job_id}/commitment",
                    "bundle": f"/theatres/{job_id}/evidence-bundle/manifest.json",
                }.items()
            }
            told["unlisted"] = str(status(ada, unlisted["job_id"])).encode()
            assert service.end() == 0
            log = service.log.read_bytes()
    assert (seen["outcome"], unlisted["outcome_reason"]) == ("certified", "repository-unreadable")
    assert stage.credentials == {"o/n": {f"Bearer {TOKEN}"}, "p/n": {""}}
    left = files_below(home) | columns_of(database) | told | during | {"the log": log}
    assert where({"token": TOKEN}, left) == []
    # The search finds what is there, also while it is read.
    assert where({"a change": "added_6"}, left)
    assert any(name.startswith("during: ") for name in left)


def files_while_it_reads(stage: GitHubStage, home: Path) -> dict[str, bytes]:
    gate = stage.gate
    assert gate is not None
    until(gate.reached.is_set, "a reading that has read something")
    found = {f"during: {name}": data for name, data in files_below(home / "evidence").items()}
    assert any("records.jsonl" in name for name in found), sorted(found)
    gate.opened.set()
    return found
