"""A run is in its issuer's log before its first call, and is closed there once, however it ends."""

import asyncio
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.theatre.cli.doubler import write_module, write_theatre
from tests.theatre.echelon_process import Answer, environment
from tests.theatre.forked_echelon import forked
from theatre.api import run_log, theatre_run
from theatre.api.bundle_proofs import Reader
from theatre.api.checks import check_folder
from theatre.api.commitments import commit_template
from theatre.api.issuer_log import append_entries, issuer_home, read_record
from theatre.api.run_log import close_commitment, log_commitment, sweep
from theatre.api.template_files import require_valid
from theatre.api.workspace import Workspace, utc_now
from theatre.cli import cli
from theatre.cli.exits import ExitCode
from theatre.engine.bundle_check import Verdict
from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object
from theatre.engine.clock import parse_rfc3339
from theatre.engine.commitment import close_by
from theatre.engine.errors import InvalidTransitionError, StateConflictError
from theatre.engine.evidence_bundle import bundle_name
from theatre.files.run_journal import EPISODES, TRAIL
from theatre.files.theatre_store import FileTheatreStore
from theatre.files.trust_home import TRUST_HOME, TrustHome
from theatre.transparency.bundle_proofs import Certified as Evidence
from theatre.transparency.bundle_proofs import ProofCheck, Proofs, check_proofs, run_nonce
from theatre.transparency.entries import EntryType, encode_entry
from theatre.transparency.errors import LogForkError, SigningKeyError
from theatre.transparency.notes import Checkpoint, Note
from theatre.transparency.proofs import LogProof
from theatre.transparency.record import Commitment, LogRecord
from theatre.transparency.statements import SignedStatement
from theatre.transparency.trust import Trust

ALL = {**dict.fromkeys(ProofCheck, True), ProofCheck.WITNESSES: None, ProofCheck.CLOSURE: None}
"""What a stranger sees of a run: he trusts the issuer and his log, and there is no witness."""


@dataclass(frozen=True)
class Place:
    """A folder with a template, its construct and its data, a store, and an issuer of its own."""

    folder: Path

    @property
    def store(self) -> FileTheatreStore:
        return FileTheatreStore(self.folder / "home")

    @property
    def template(self) -> Path:
        return self.folder / "template.json"

    @property
    def issuer(self) -> TrustHome:
        return TrustHome(Path(environment(self.folder / "home")[TRUST_HOME]))

    @property
    def workspace(self) -> Workspace:
        return Workspace.from_environment({"ECHELON_HOME": str(self.folder / "home")})

    @property
    def trust(self) -> Trust:
        trust = self.issuer.read()
        assert trust is not None
        return trust

    @property
    def record(self) -> LogRecord:
        return asyncio.run(read_record(self.issuer, self.trust))

    def echelon(self, *arguments: str | Path, die_before: tuple[str, int] | None = None) -> Answer:
        return forked(*arguments, home=self.folder / "home", die_before=die_before)

    def commit(self, *, days_ago: float = 0) -> str:
        """Commit the template; return the theatre's id."""
        theatre = asyncio.run(
            commit_template(
                require_valid(parse_object(self.template.read_bytes())),
                template_folder=self.folder,
                workspace=self.workspace,
                clock=lambda: utc_now() - timedelta(days=days_ago),
            )
        )
        return theatre.theatre_id

    def begin(self, theatre_id: str) -> bytes:
        """Log the commitment of a theatre as a run does before its first call; return its nonce."""
        with self.store.hold(theatre_id) as held:
            logged = asyncio.run(log_commitment(held, "me"))
            assert held.run_nonce == logged.nonce
        return logged.nonce

    def end(self, theatre_id: str, outcome: JsonObject) -> None:
        """End a theatre without another call, and close its commitment."""
        with self.store.hold(theatre_id) as held:
            _, events = held.theatre.end(at=utc_now(), outcome=outcome)
            asyncio.run(held.journal.note_together(events))
            asyncio.run(close_commitment(self.store.view(theatre_id)))

    def grow(self) -> None:
        """Let another run of the issuer log something."""
        members: JsonObject = {"construct_id": "another", "envelope_sha256": "0" * 64}
        entry = encode_entry(EntryType.TELEMETRY, members)
        asyncio.run(append_entries(self.issuer, self.trust, [entry]))

    @property
    def size(self) -> int:
        """Return how many entries the log has."""
        checkpoint = (self.issuer.folder / "log" / "checkpoint").read_bytes()
        return Checkpoint.parse(Note.parse(checkpoint).text).size

    def commitment(self, theatre_id: str) -> Commitment:
        return self.record.commitments[theatre_id]

    def bundle(self, theatre_id: str) -> Path:
        return self.store.folder(theatre_id) / bundle_name(theatre_id)

    def proofs(self, theatre_id: str) -> Mapping[ProofCheck, bool | None]:
        """Return what a stranger makes of the files next to a bundle."""
        bundle = self.bundle(theatre_id)
        files = Proofs(
            commitment=(bundle / "proofs" / "commitment.tlog-proof").read_bytes(),
            statement=(bundle / "proofs" / "certificate.sigstore.json").read_bytes(),
            certificate=(bundle / "proofs" / "certificate.tlog-proof").read_bytes(),
        )
        receipt = parse_object((bundle / "commitment_receipt.json").read_bytes())
        template: Any = receipt["template_snapshot"]
        certified = Evidence(
            certificate=parse_object((bundle / "certificate.json").read_bytes()),
            close_by=close_by(template, parse_rfc3339(str(receipt["committed_at"]))),
            run_nonce=self.activated_nonce(theatre_id),
            coin=bytes.fromhex((bundle / "coin.txt").read_text()),
        )
        report = check_proofs(files, certified, trust=self.trust)
        return {line.check: line.ok for line in report.lines}

    def activated_nonce(self, theatre_id: str) -> bytes:
        lines = (self.store.folder(theatre_id) / TRAIL).read_bytes().splitlines()
        entries = [parse_object(line) for line in lines]
        details: list[Any] = [e["detail"] for e in entries if e["event_type"] == "activated"]
        return bytes.fromhex(details[0]["run_nonce"])

    def is_closed_once(self, theatre_id: str) -> None:
        """Its nonce is that of the first checkpoint, all is proved, and nothing is left open."""
        proof = LogProof.parse((self.store.folder(theatre_id) / COMMITMENT).read_bytes())
        assert self.activated_nonce(theatre_id) == run_nonce(proof.checkpoint)
        assert self.issuer.open_commitments.theatre_ids() == []
        assert self.proofs(theatre_id) == ALL
        assert not list(self.folder.rglob("*.partial"))


COMMITMENT = "commitment.tlog-proof"


def make_place(folder: Path, **config: str) -> Place:
    version = write_module(folder)
    write_theatre(
        folder, adapter_type="python", endpoint="doubling:double", version=version, config=config
    )
    return Place(folder)


@pytest.fixture
def runnable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = make_place(tmp_path)
    monkeypatch.setenv(TRUST_HOME, str(made.issuer.folder))
    return made


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return one whose construct is elsewhere: it is committed at once, and never called."""
    write_theatre(tmp_path, adapter_type="http", endpoint="https://construct.example/")
    made = Place(tmp_path)
    monkeypatch.setenv(TRUST_HOME, str(made.issuer.folder))
    return made


@dataclass(frozen=True)
class Certified:
    """A run to its certificate; its template is not to be guessed from the log."""

    place: Place
    run: Answer

    @property
    def theatre_id(self) -> str:
        return str(self.run.document["theatre_id"])


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    place = make_place(tmp_path_factory.mktemp("certified"), disclosure="hashes")
    return Certified(place, place.echelon("theatre", "run", place.template, "--json"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return a theatre whose process died when it had ended, before its certificate was signed."""
    place = make_place(tmp_path_factory.mktemp("killed"))
    place.echelon("theatre", "run", place.template, die_before=("/certificate.sigstore.json", 1))
    return place


@pytest.fixture
def unsigned(killed: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a copy of it that a test may change."""
    place = Place(shutil.copytree(killed.folder, tmp_path / "copy"))
    monkeypatch.setenv(TRUST_HOME, str(place.issuer.folder))
    (known,) = map(place.issuer.open_commitments.find, place.store.theatre_ids())
    assert known is not None
    moved = place.store.folder(known.theatre_id).resolve()
    place.issuer.open_commitments.keep(known._replace(folder=moved))
    return place


@pytest.fixture
def another(certified: Certified, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Certified:
    """Return a copy, with store and issuer, that a test may change."""
    place = Place(shutil.copytree(certified.place.folder, tmp_path / "copy"))
    monkeypatch.setenv(TRUST_HOME, str(place.issuer.folder))
    return Certified(place, certified.run)


# What a run leaves.


def test_a_run_is_logged_closed_and_has_its_proofs(certified: Certified) -> None:
    place, theatre_id = certified.place, certified.theatre_id
    origin = place.trust.log.name
    assert f"logged       entry 0 of {origin}\n" in certified.run.stderr
    assert certified.run.document["log"] == {
        "origin": origin,
        "index": 0,
        "closed_at": 1,
        "void_reason": None,
        "run": 1,
        "of": 1,
        "others": {"commitments": 0, "certified": 0, "void": {}, "open": 0, "overdue": 0},
        "described": "run 1 of 1",
    }
    place.is_closed_once(theatre_id)
    assert (place.record.faults, place.size) == ([], 2)
    logged = place.commitment(theatre_id).commitment_hash
    receipt = parse_object((place.bundle(theatre_id) / "commitment_receipt.json").read_bytes())
    assert logged != receipt["commitment_hash"]
    check = place.echelon("check", place.bundle(theatre_id), "--json")
    assert (check.code, check.document["verdict"]) == (0, "valid, logged")
    snapshot = (place.bundle(theatre_id) / "proofs" / "trust.json").read_bytes()
    assert snapshot == (place.issuer.folder / "trust.json").read_bytes()


def test_its_reproduction_draws_with_its_nonce_and_is_in_no_log(another: Certified) -> None:
    place, bundle = another.place, another.place.bundle(another.theatre_id)
    answer = place.echelon("reproduce", bundle, "--constructs", place.folder, "--json")
    assert (answer.code, answer.document["verdict"], place.size) == (0, "equal", 2)
    assert "logged" not in answer.stderr
    again = answer.document["theatre_id"]
    assert place.activated_nonce(again) == place.activated_nonce(another.theatre_id)


def test_of_five_runs_the_best_is_shown_as_one_of_five(another: Certified) -> None:
    place = another.place
    for outcome in ("failed", "failed", "void"):
        theatre_id = place.commit()
        place.begin(theatre_id)
        place.end(theatre_id, {"outcome": outcome, "outcome_reason": "cancelled"})
    place.begin(place.commit())
    rows = ["record       run 1 of 5, the other 4: 1 cancelled, 2 failed, 1 open"]
    shown = place.echelon("theatre", "show", another.theatre_id).stdout.splitlines()
    assert [line for line in shown if line.startswith("record ")] == rows
    record = place.echelon("construct", "record", "doubler", "--json").document["versions"]
    assert [{**one, "construct_version": ""} for one in record] == [
        {
            "construct_version": "",
            "commitments": 5,
            "certified": 1,
            "open": 1,
            "overdue": 0,
            "void": {"cancelled": 1, "failed": 2},
        }
    ]
    table = place.echelon("construct", "record", "doubler").stdout
    assert "1 certified, 1 cancelled, 2 failed, 1 open" in table


def test_runs_under_other_versions_are_counted_next_to_those_of_its_own(another: Certified) -> None:
    place = another.place
    template: Any = parse_object(place.template.read_bytes())
    for version in ("1" * 64, "2" * 64):
        template["version_pins"]["constructs"]["doubler"] = version
        place.template.write_bytes(canonical_line(template))
        place.begin(place.commit())
    shown = place.echelon("theatre", "show", another.theatre_id).stdout.splitlines()
    assert [line for line in shown if line.startswith("record ")] == [
        "record       run 1 of 1; 3 runs of 3 versions"
    ]


@pytest.mark.parametrize(
    ("outcome", "reason", "void"),
    [
        ("no_certificate", "nothing-scored", "nothing-scored"),
        ("failed", "self-check", "failed"),
        ("failed", "journal-corrupt", "failed"),
        ("void", "cancelled", "cancelled"),
        ("void", "not-closed-in-time", "abandoned"),
        ("certified", None, "failed"),  # without a bundle
    ],
)
def test_whatever_ends_a_theatre_closes_its_commitment(
    place: Place, outcome: str, reason: str | None, void: str
) -> None:
    theatre_id = place.commit()
    place.begin(theatre_id)
    assert place.commitment(theatre_id).is_open
    place.end(theatre_id, {"outcome": outcome, "outcome_reason": reason})
    closed = place.commitment(theatre_id)
    assert (closed.closed_at, closed.void_reason, place.record.faults) == (1, void, [])
    # Once: there is nothing left to close.
    asyncio.run(close_commitment(place.store.view(theatre_id)))
    assert place.size == 2


def test_a_result_that_comes_past_its_day_is_void_and_no_certificate(
    runnable: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    theatre_id = runnable.commit()
    recorded = runnable.store.folder(theatre_id) / EPISODES

    def clock() -> datetime:
        is_called = recorded.exists() and recorded.stat().st_size > 0
        return utc_now() + timedelta(days=31 if is_called else 29)

    monkeypatch.setattr(theatre_run, "utc_now", clock)
    monkeypatch.setenv("ECHELON_HOME", str(runnable.folder / "home"))
    CliRunner().invoke(cli, ["theatre", "run", theatre_id])
    ended = runnable.store.view(theatre_id).resolution or {}
    assert (ended["outcome"], ended["outcome_reason"]) == ("void", "not-closed-in-time")
    assert runnable.commitment(theatre_id).void_reason == "abandoned"
    assert not runnable.bundle(theatre_id).exists()


def test_a_certificate_that_was_not_logged_in_time_is_none(
    unsigned: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (theatre_id,) = unsigned.store.theatre_ids()
    monkeypatch.setattr(run_log, "utc_now", lambda: utc_now() + timedelta(days=31))
    asyncio.run(sweep(at=utc_now()))
    assert unsigned.commitment(theatre_id).void_reason == "abandoned"
    assert not (unsigned.bundle(theatre_id) / "proofs").exists()


@pytest.mark.parametrize("change", ["rotate", "revoke"])
def test_what_is_certified_is_signed_before_its_key_is_changed(
    unsigned: Place, change: str
) -> None:
    (theatre_id,), (key,) = unsigned.store.theatre_ids(), unsigned.trust.keys
    kid = [key.key.kid] if change == "revoke" else []
    assert CliRunner().invoke(cli, ["trust", change, *kid]).exception is None
    unsigned.is_closed_once(theatre_id)
    statement = (unsigned.bundle(theatre_id) / "proofs/certificate.sigstore.json").read_bytes()
    assert SignedStatement.verify(statement, unsigned.trust.issuer_keys()).kid == key.key.kid


def test_what_was_certified_under_the_last_key_is_signed_with_it(unsigned: Place) -> None:
    """By a process that lived while another one rotated: the next key does not count for it."""
    (theatre_id,), (key,) = unsigned.store.theatre_ids(), unsigned.trust.keys
    unsigned.issuer.rotate(unsigned.trust, at=utc_now() + timedelta(seconds=2))
    asyncio.run(sweep(at=utc_now()))
    unsigned.is_closed_once(theatre_id)
    statement = (unsigned.bundle(theatre_id) / "proofs/certificate.sigstore.json").read_bytes()
    assert SignedStatement.verify(statement, unsigned.trust.issuer_keys()).kid == key.key.kid
    reader = Reader(trust=unsigned.trust, words="signed", log=None)
    assert check_folder(unsigned.bundle(theatre_id), reader=reader).verdict is Verdict.LOGGED


def test_no_run_begins_by_a_clock_that_is_behind_its_key(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.begin(place.commit())
    theatre_id = place.commit()
    monkeypatch.setattr(run_log, "utc_now", lambda: utc_now() - timedelta(hours=1))
    with pytest.raises(SigningKeyError, match="expected a clock past"):
        place.begin(theatre_id)
    assert (place.size, place.issuer.open_commitments.find(theatre_id)) == (1, None)


def test_a_theatre_that_never_began_is_not_in_the_log(place: Place) -> None:
    theatre_id = place.commit()
    assert place.echelon("theatre", "cancel", theatre_id).code == 0
    assert not place.issuer.folder.exists()


def test_a_cancelled_run_is_closed_and_says_so(place: Place) -> None:
    theatre_id = place.commit()
    place.begin(theatre_id)
    cancelled = place.echelon("theatre", "cancel", theatre_id)
    assert "void (cancelled) by entry 1" in cancelled.stdout


# What a dead process, or a liar, leaves.


def test_the_folder_of_a_run_that_is_deleted_leaves_an_abandoned_commitment(place: Place) -> None:
    theatre_id, kept = place.commit(), place.commit()
    place.begin(theatre_id)
    place.begin(kept)
    shutil.rmtree(place.store.folder(theatre_id))
    assert CliRunner().invoke(cli, ["log", "show"]).exception is None
    found = {one: place.commitment(one).void_reason for one in (theatre_id, kept)}
    assert found == {theatre_id: "abandoned", kept: None}
    assert place.issuer.open_commitments.theatre_ids() == [kept]


def test_what_was_decided_stands_whatever_becomes_of_the_folder(unsigned: Place) -> None:
    place, (theatre_id,) = unsigned, unsigned.store.theatre_ids()
    # What stands in the way of the proofs stops it when the entry is logged.
    (place.store.folder(theatre_id) / ".proofs.partial").write_bytes(b"")
    asyncio.run(sweep(at=utc_now()))
    assert (place.size, place.issuer.open_commitments.theatre_ids()) == (2, [theatre_id])
    shutil.rmtree(place.store.folder(theatre_id))
    asyncio.run(sweep(at=utc_now()))
    closed = place.commitment(theatre_id)
    assert (place.size, closed.void_reason, closed.closed_at) == (2, None, 1)
    assert place.issuer.open_commitments.theatre_ids() == []


def test_a_theatre_over_its_day_is_ended_and_closed_by_the_next_command(place: Place) -> None:
    theatre_id = place.commit(days_ago=29)
    place.begin(theatre_id)
    for days, state in ((0.9, "COMMITTED"), (1.1, "RESOLVED")):
        asyncio.run(sweep(at=utc_now() + timedelta(days=days)))
        assert place.store.view(theatre_id).state == state
    assert place.commitment(theatre_id).void_reason == "abandoned"
    assert place.issuer.open_commitments.theatre_ids() == []


@pytest.mark.parametrize("lost", ["run_nonce", COMMITMENT, "both", "another's proof"])
def test_a_nonce_cannot_be_drawn_again(place: Place, lost: str) -> None:
    theatre_id, other = place.commit(), place.commit()
    nonce = place.begin(theatre_id)
    place.begin(other)
    folder = place.store.folder(theatre_id)
    if lost == "another's proof":
        shutil.copyfile(place.store.folder(other) / COMMITMENT, folder / COMMITMENT)
    for name in ("run_nonce", COMMITMENT) if lost == "both" else (lost,):
        (folder / name).unlink(missing_ok=True)
    place.grow()
    assert place.begin(theatre_id) == nonce
    proof = LogProof.parse((folder / COMMITMENT).read_bytes())
    assert (proof.index, run_nonce(proof.checkpoint)) == (0, nonce)


def test_tiles_that_were_never_signed_are_not_signed_for_an_old_commitment(place: Place) -> None:
    theatre_id = place.commit()
    place.begin(theatre_id)
    place.grow()
    rewrite(place.issuer.folder / "log")
    with pytest.raises(LogForkError, match="expected the tiles of 1 signed entries"):
        place.begin(theatre_id)


def test_a_theatre_that_is_set_back_cannot_begin_again(place: Place) -> None:
    theatre_id = place.commit()
    trail = place.store.folder(theatre_id) / TRAIL
    began = trail.read_bytes()
    place.begin(theatre_id)
    place.end(theatre_id, {"outcome": "failed", "outcome_reason": "self-check"})
    trail.write_bytes(began)
    (place.store.folder(theatre_id) / COMMITMENT).unlink()
    with pytest.raises(InvalidTransitionError, match="is closed there"):
        place.begin(theatre_id)


def test_a_theatre_that_is_set_back_with_its_note_has_no_other_end(place: Place) -> None:
    theatre_id, notes = place.commit(), place.issuer.open_commitments
    trail = place.store.folder(theatre_id) / TRAIL
    place.begin(theatre_id)
    began, note = trail.read_bytes(), notes.find(theatre_id)
    assert note is not None
    place.end(theatre_id, {"outcome": "failed", "outcome_reason": "self-check"})
    trail.write_bytes(began)
    notes.keep(note)
    assert "is closed there" in place.echelon("theatre", "run", theatre_id).stderr
    place.end(theatre_id, {"outcome": "void", "outcome_reason": "cancelled"})
    assert (place.size, place.record.faults, notes.theatre_ids()) == (2, [], [])


def test_a_copy_of_a_theatre_has_no_try_of_its_own_and_a_moved_one_has(place: Place) -> None:
    theatre_id = place.commit()
    nonce = place.begin(theatre_id)
    copy = Place(place.folder / "copy")
    shutil.copytree(place.folder / "home", copy.folder / "home")
    with pytest.raises(InvalidTransitionError, match="as it was logged"):
        copy.begin(theatre_id)
    shutil.rmtree(place.folder / "home")
    assert copy.begin(theatre_id) == nonce
    assert place.commitment(theatre_id).is_open


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"verification_tier": "PROVEN"}, "the certificate that the theatre ended with"),
        ({"issuer": "somebody else"}, "a bundle that passes its check"),
    ],
)
def test_a_certificate_that_was_changed_before_it_was_signed_is_not_signed(
    unsigned: Place, capsys: pytest.CaptureFixture[str], change: JsonObject, why: str
) -> None:
    place, (theatre_id,) = unsigned, unsigned.store.theatre_ids()
    path = place.bundle(theatre_id) / "certificate.json"
    certificate = parse_object(path.read_bytes())
    path.write_bytes(canonical_line(certificate | change))
    asyncio.run(sweep(at=utc_now()))
    assert f"not signed: expected {why}" in capsys.readouterr().err
    assert place.commitment(theatre_id).void_reason == "failed"
    assert not (place.bundle(theatre_id) / "proofs").exists()


def test_a_commitment_that_another_log_gets_after_the_run_brings_no_signature(
    unsigned: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who shows no one his first log makes another one, and commits there to what has come out."""
    place, (theatre_id,) = unsigned, unsigned.store.theatre_ids()
    known = place.issuer.open_commitments.find(theatre_id)
    assert known is not None
    monkeypatch.setenv(TRUST_HOME, str(place.folder / "another issuer"))
    issuer = issuer_home()
    trust = issuer.open(issuer="me", at=utc_now())
    asyncio.run(append_entries(issuer, trust, [b"{}", known.commitment]))
    issuer.open_commitments.keep(known)
    asyncio.run(close_commitment(place.store.view(theatre_id), is_checked=True))
    assert "not signed: expected a run that drew with the nonce" in capsys.readouterr().err
    record = asyncio.run(read_record(issuer, trust))
    assert record.commitments[theatre_id].void_reason == "failed"


def test_a_log_that_is_lost_while_a_run_is_under_way_is_not_replaced(
    unsigned: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, (theatre_id,) = unsigned, unsigned.store.theatre_ids()
    monkeypatch.setenv(TRUST_HOME, str(place.folder / "another issuer"))
    asyncio.run(close_commitment(place.store.view(theatre_id)))
    assert "not signed: no commitment" in capsys.readouterr().err
    assert not (place.folder / "another issuer").exists()


# A log that cannot be written.


def test_a_run_whose_commitment_another_log_has_does_not_begin(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    theatre_id = place.commit()
    place.begin(theatre_id)
    monkeypatch.setenv(TRUST_HOME, str(place.folder / "another issuer"))
    with pytest.raises(InvalidTransitionError, match="was logged elsewhere"):
        place.begin(theatre_id)


def lose(log: Path) -> None:
    """Take the log away: the next writer would begin a second one under the same key."""
    shutil.rmtree(log)


def rewrite(log: Path) -> None:
    """Change a hash of what was signed."""
    (log / "tile/0/000.p/1").write_bytes(bytes(32))


def block(log: Path) -> None:
    """Let the disk refuse the next tile."""
    shutil.rmtree(log / "tile/entries")
    (log / "tile/entries").touch()


@pytest.mark.parametrize(
    ("spoil", "error"), [(lose, LogForkError), (rewrite, LogForkError), (block, OSError)]
)
def test_a_log_that_cannot_be_written_lets_no_run_begin(
    place: Place, spoil: Callable[[Path], None], error: type[Exception]
) -> None:
    place.begin(place.commit())
    theatre_id = place.commit()
    spoil(place.issuer.folder / "log")
    with pytest.raises(error):
        place.begin(theatre_id)
    assert not (place.store.folder(theatre_id) / "run_nonce").exists()


def test_a_run_whose_log_was_rewritten_makes_no_call(runnable: Place) -> None:
    place, theatre_id = runnable, runnable.commit()
    place.begin(theatre_id)
    rewrite(place.issuer.folder / "log")
    answer = place.echelon("theatre", "run", theatre_id, "--json")
    assert answer.document["error"]["code"] == "log-fork"
    view = place.store.view(theatre_id)
    assert (view.state, view.recorded) == ("COMMITTED", 0)
    assert not (view.folder / EPISODES).exists()


def test_a_log_that_has_lost_a_commitment_closes_nothing(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.begin(place.commit())
    log = place.issuer.folder / "log"
    shutil.copytree(log, place.folder / "older")
    theatre_id = place.commit()
    place.begin(theatre_id)
    shutil.rmtree(log)
    shutil.copytree(place.folder / "older", log)
    place.end(theatre_id, {"outcome": "failed", "outcome_reason": "self-check"})
    assert "still open in your log" in capsys.readouterr().err
    assert theatre_id in place.issuer.open_commitments.theatre_ids()


def test_a_lock_that_another_process_keeps_is_an_error_at_last(place: Place) -> None:
    place.begin(place.commit())

    async def wait() -> None:
        async with place.issuer.log.hold(), place.issuer.log.hold(patience=0):
            raise AssertionError

    with pytest.raises(StateConflictError, match="has been writing the log"):
        asyncio.run(wait())


# kill -9 before each durable step, then the next command.

STEPS = (
    ("issuer/log/.signed", 1),
    ("issuer/trust.json", 1),
    ("issuer/open/[0-9a-f]*", 1),
    ("tile/entries/000.p/1", 1),
    ("issuer/log/.signed", 2),
    ("issuer/log/checkpoint", 2),
    ("/commitment.tlog-proof", 1),
    ("/run_nonce", 1),
    ("/certificate.sigstore.json", 1),
    ("issuer/open/[0-9a-f]*", 2),
    ("tile/entries/000.p/2", 1),
    ("issuer/log/.signed", 3),
    ("issuer/log/checkpoint", 3),
    (".proofs.partial/certificate.tlog-proof", 1),
    ("/proofs", 1),
    ("issuer/open/[0-9a-f]*", 3),
)
"""Names, and how many times they are written, renamed to or removed before the process dies."""


def is_killed_and_closed_once(place: Place, step: tuple[str, int]) -> None:
    killed = place.echelon("theatre", "run", place.template, "--quiet", die_before=step)
    assert killed.code == -signal.SIGKILL
    (theatre_id,) = place.store.theatre_ids()
    kept = place.store.folder(theatre_id) / "run_nonce"
    nonce = kept.read_text() if kept.exists() else None
    if place.issuer.read() is not None:
        place.grow()
    again = place.echelon("theatre", "run", theatre_id, "--quiet")
    assert again.code in {ExitCode.OK, ExitCode.WRONG_STATE}, again.stderr
    assert "warning" not in again.stderr
    place.is_closed_once(theatre_id)
    assert place.record.faults == []
    assert place.activated_nonce(theatre_id).hex() == (nonce or kept.read_text())
    assert [run.theatre_id for run in place.record.by_index.values()] == [theatre_id]


def test_a_run_that_is_killed_is_closed_once(runnable: Place) -> None:
    is_killed_and_closed_once(runnable, ("issuer/log/.signed", 3))


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_run_that_is_killed_at_any_step_is_closed_once(
    runnable: Place, step: tuple[str, int]
) -> None:
    is_killed_and_closed_once(runnable, step)
