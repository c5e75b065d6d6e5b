"""`echelon log fsck` holds the theatres of the working folder to the user's log."""

import asyncio
import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from tests.theatre.cli.test_run_log import Place, make_place
from theatre.api.run_log import close_commitment
from theatre.api.workspace import utc_now
from theatre.cli import cli
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.engine.theatre import CANCELLED
from theatre.files.trust_home import TRUST_HOME


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = make_place(tmp_path_factory.mktemp("fsck"))
    assert place.echelon("theatre", "run", place.template).code == ExitCode.OK
    return place


@pytest.fixture
def place(certified: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv(TRUST_HOME, str(certified.issuer.folder))
    monkeypatch.setenv("ECHELON_HOME", str(certified.folder / "home"))
    return certified


def found() -> list[tuple[str, str]]:
    """Return code and subject of each finding."""
    ended = CliRunner().invoke(cli, ["log", "fsck", "--json"])
    document = json.loads(ended.stdout)
    assert (document["verdict"] == "intact") is (ended.exception is None)
    if ended.exception is not None:
        assert isinstance(ended.exception, CommandEndedError)
        assert ended.exception.code is ExitCode.CHECK_FAILED
    return [(one["code"], one["subject"]) for one in document["findings"]]


def test_theatres_that_ended_wait_or_have_not_begun_are_in_order(place: Place) -> None:
    place.commit()
    ended = place.commit()
    place.begin(ended)
    # Its commitment is open, as the store says.
    assert found() == []
    with place.store.hold(ended) as held:
        _, events = held.theatre.end(at=utc_now(), outcome={**CANCELLED})
        asyncio.run(held.journal.note_together(events))
    # It has ended, and the next command closes it.
    assert found() == []
    asyncio.run(close_commitment(place.store.view(ended)))
    assert found() == []


def before_the_end(trail: bytes) -> bytes:
    """Return a trail without how its theatre ended."""
    lines = trail.splitlines(keepends=True)
    end = next(at for at, line in enumerate(lines) if b'"event_type":"resolved"' in line)
    return b"".join(lines[:end])


@pytest.mark.parametrize(
    ("name", "change", "codes"),
    [
        ("bundle/proofs/certificate.sigstore.json", lambda _: None, ["statement-missing"]),
        ("bundle/proofs/certificate.sigstore.json", lambda _: b"{}", ["statement-invalid"]),
        ("audit_trail.jsonl", before_the_end, ["log-closing-differs"]),
        ("audit_trail.jsonl", lambda data: data[2:], ["theatre-unreadable"]),
        (
            "commitment_receipt.json",
            lambda data: data.replace(b'"committed_at":"20', b'"committed_at":"19'),
            ["log-commitment-differs"],
        ),
    ],
)
def test_what_differs_from_the_log_is_named(
    place: Place, name: str, change: Callable[[bytes], bytes | None], codes: list[str]
) -> None:
    theatre_id = next(one for one in place.store.theatre_ids() if place.bundle(one).exists())
    folder = place.store.folder(theatre_id)
    path = folder / name.replace("bundle", place.bundle(theatre_id).name)
    kept = path.read_bytes()
    content = change(kept)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert found() == [(code, f"theatre {theatre_id}") for code in codes]
    path.write_bytes(kept)
