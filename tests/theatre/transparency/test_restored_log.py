"""A log that was restored from a backup signs nothing that others have seen otherwise.

The folders are those of `echelon`; the witness is a real one, over HTTP on loopback.
"""

import asyncio
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.theatre.transparency.log_stage import signer
from tests.theatre.transparency.loopback_log import HERE, files_below, serving, witness_in
from tests.theatre.transparency.test_record import committed, void
from theatre.api.issuer_log import append_entries, read_record
from theatre.api.log_network import compare_with_others
from theatre.api.run_log import sweep
from theatre.cli import cli
from theatre.cli.witness_command import WitnessServer
from theatre.files.open_commitments import OpenCommitment
from theatre.files.trust_home import TrustHome
from theatre.transparency.continuation import recover
from theatre.transparency.errors import LogBehindError, LogForkError, SigningKeyError
from theatre.transparency.log import LogWriter
from theatre.transparency.notes import KeyKind
from theatre.transparency.policy import Policy
from theatre.transparency.trust import Trust
from theatre.transparency.witness import Witness

pytestmark = pytest.mark.anyio

AT = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)
WITNESS = signer("witness.example", KeyKind.WITNESS, seed=2)
BAD, GOOD = committed("bad", close_by="2027-12-23"), committed("good", close_by="2027-12-23")
NOWHERE = "http://127.0.0.1:9"


def policed(home: TrustHome, url: str) -> Trust:
    """Name the witness, at a URL, in the issuer's policy."""
    trust = home.open(issuer="me", at=AT)
    text = f"log {trust.log}\nwitness w {WITNESS.key} {url}\nquorum none\n"
    trust = trust._replace(policy=Policy.parse(text.encode()), policy_text=text)
    home.write(trust)
    return trust


def witness_of(trust: Trust, folder: Path) -> WitnessServer:
    """Return a witness that follows the log."""
    return witness_in(folder, Witness(WITNESS.key, WITNESS.sign, {trust.log.name: [trust.log]}))


def copied(home: TrustHome, folder: Path) -> TrustHome:
    """Take a backup of everything that an issuer has, or restore it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(home.folder, folder)
    return TrustHome(folder)


async def signed(home: TrustHome) -> bytes | None:
    return await home.log.signed()


async def test_the_second_of_two_that_restored_one_backup_is_found_by_its_witness(
    tmp_path: Path,
) -> None:
    """Both have all keys. The late one is refused before it signs, and goes on when it has all."""
    first = TrustHome(tmp_path / "first")
    trust = policed(first, NOWHERE)
    async with serving(witness_of(trust, tmp_path / "w")) as url:
        trust = policed(first, url)
        await append_entries(first, trust, [GOOD])
        second = copied(first, tmp_path / "second")
        await append_entries(first, trust, [BAD])
        before = await signed(second)
        with pytest.raises(LogBehindError, match=r"got 1 entries where witness\.ex\w+ has seen 2"):
            await append_entries(second, trust, [void("good", 0)])
        assert await signed(second) == before
        # Nothing that contradicts anything was signed.
        assert not (tmp_path / "w" / "evidence").exists()
        await recover(second.log, first.log, trust.log)
        appended = await append_entries(second, trust, [void("good", 0)])
        assert (appended.indices, b"witness.example" in appended.checkpoint) == ((2,), True)
        # Now the first one is the restored one.
        with pytest.raises(LogBehindError):
            await append_entries(first, trust, [BAD])


@pytest.mark.parametrize("more", [0, 1])
async def test_two_that_signed_while_their_witness_was_away_are_found_by_it(
    tmp_path: Path, more: int
) -> None:
    """Nothing could stop the second one; from the witness's return on it signs nothing again."""
    first = TrustHome(tmp_path / "first")
    trust = policed(first, NOWHERE)
    await append_entries(first, trust, [GOOD])
    second = copied(first, tmp_path / "second")
    await append_entries(first, trust, [BAD])
    await append_entries(second, trust, [void("good", 0), *[b'{"n":1}', b'{"n":2}'][:more]])
    async with serving(witness_of(trust, tmp_path / "w")) as url:
        trust = policed(first, url)
        await append_entries(first, trust, [BAD])
        before = await signed(second)
        for _ in range(2):
            with pytest.raises(LogForkError, match="two copies of this log were written to"):
                await append_entries(second, trust, [void("good", 0)])
        with pytest.raises(LogForkError):
            await recover(second.log, first.log, trust.log)
    assert await signed(second) == before
    # The witness has what the key signed against its own last checkpoint.
    assert (tmp_path / "w" / "evidence").is_dir()


async def test_a_witness_that_is_away_delays_nothing_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = TrustHome(tmp_path / "home")
    await append_entries(home, policed(home, NOWHERE), [GOOD])
    assert capsys.readouterr().err.startswith("warning: no cosignature: witness.example: ")


async def test_another_process_of_the_same_log_that_was_quicker_is_no_restore(
    tmp_path: Path,
) -> None:
    """The witness hears of the other one's entry between the question and its answer."""
    home = TrustHome(tmp_path / "home")
    trust = policed(home, NOWHERE)
    await append_entries(home, trust, [GOOD])
    late = [BAD]

    class Hurried(WitnessServer):
        def add(self, body: bytes) -> tuple[int, str, bytes]:
            if late:
                asyncio.run(append_entries(home, trust, [late.pop()]))
            return super().add(body)

    (tmp_path / "w").mkdir()
    followed = Witness(WITNESS.key, WITNESS.sign, {trust.log.name: [trust.log]})
    async with serving(Hurried(HERE, followed, tmp_path / "w")) as url:
        trust = policed(home, url)
        compared = await compare_with_others(home.log, trust)
        assert (len(compared.witnesses), compared.missing) == (1, ())


async def test_the_address_of_a_log_shows_that_it_was_restored(tmp_path: Path) -> None:
    home = TrustHome(tmp_path / "home")
    trust = home.open(issuer="me", at=AT)
    await append_entries(home, trust, [GOOD])
    backup = copied(home, tmp_path / "backup")
    await append_entries(home, trust, [BAD])
    shutil.copytree(home.folder / "log", tmp_path / "public")
    other = copied(backup, tmp_path / "other")
    async with serving(files_below(tmp_path / "public")) as url:
        for entry in (void("good", 0), void("bad", 1)):
            await append_entries(other, trust, [entry])
            with pytest.raises(LogForkError, match=f"go on from what {url} has seen"):
                await append_entries(other, trust._replace(url=url), [BAD])
        with pytest.raises(LogBehindError, match=f"got 1 entries where {url} has seen 2"):
            await append_entries(backup, trust._replace(url=url), [BAD])
        await append_entries(home, trust._replace(url=url), [void("good", 0)])


async def test_part_of_a_folder_that_was_copied_back_is_not_signed_over(tmp_path: Path) -> None:
    home = TrustHome(tmp_path / "home")
    trust = home.open(issuer="me", at=AT)
    await append_entries(home, trust, [GOOD])
    old = await signed(home)
    await append_entries(home, trust, [BAD])
    public = await home.log.read("checkpoint")
    (home.folder / "log" / ".signed").write_bytes(old or b"")
    writer = LogWriter(home.log, trust.log, home.log_signer(trust))
    with pytest.raises(LogBehindError, match="its checkpoint of 2 entries, got 1"):
        await writer.open()
    assert await home.log.read("checkpoint") == public


def test_a_log_is_brought_back_from_its_export_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the commands: an old folder is copied back, refused, and takes what the export has."""
    home, public = TrustHome(tmp_path / "home"), tmp_path / "public"
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(home.folder))

    def echelon(*arguments: str) -> BaseException | None:
        return CliRunner().invoke(cli, arguments).exception

    assert echelon("trust", "rotate") is None
    assert echelon("log", "export", str(public)) is None
    backup = copied(home, tmp_path / "backup")
    trust = home.read()
    assert trust is not None
    kid = trust.keys[-1].key.kid
    assert echelon("trust", "revoke", kid) is None
    assert echelon("log", "export", str(public)) is None
    newest = (public / "checkpoint").read_bytes()
    known = Trust.parse((public / "trust.json").read_bytes()).keys

    copied(backup, home.folder)
    for command in (("trust", "rotate"), ("trust", "revoke", kid), ("log", "export", str(public))):
        assert isinstance(echelon(*command), LogBehindError)
    # A refused rotation has changed no key.
    assert (home.read(), (public / "checkpoint").read_bytes()) == (trust, newest)
    assert echelon("log", "recover", str(public)) is None
    assert (home.folder / "log" / ".signed").read_bytes() == newest
    caught_up = home.read()
    assert caught_up is not None
    assert [(one.key.kid, one.revoked_index) for one in caught_up.keys] == [
        (one.key.kid, one.revoked_index) for one in known
    ]
    # The revoked key, which alone is at hand, signs nothing.
    with pytest.raises(SigningKeyError, match="got another"):
        home.signer(caught_up)
    assert echelon("trust", "rotate") is None
    assert isinstance(echelon("log", "recover", str(public)), LogForkError)


def test_what_the_log_has_closed_since_the_backup_is_not_closed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backup says that three are open: one is, one has its folder, and one is gone."""
    home = TrustHome(tmp_path / "home")
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(home.folder))
    trust = home.open(issuer="me", at=AT)
    entries = {one: committed(one, close_by="2027-12-23") for one in ("open", "here", "gone")}
    asyncio.run(append_entries(home, trust, list(entries.values())))
    for one, entry in entries.items():
        folder = tmp_path / one
        if one == "here":
            folder.mkdir()
        home.open_commitments.folder.mkdir(exist_ok=True)
        home.open_commitments.keep(OpenCommitment(theatre_id=one, folder=folder, commitment=entry))
    backup = copied(home, tmp_path / "backup")
    asyncio.run(append_entries(home, trust, [void("here", 1), void("gone", 2)]))
    newer = copied(home, tmp_path / "newer")
    copied(backup, home.folder)
    assert CliRunner().invoke(cli, ["log", "recover", str(newer.folder / "log")]).exception is None
    asyncio.run(sweep(at=AT))
    record = asyncio.run(read_record(home, trust))
    reasons = {one: record.commitments[one].void_reason for one in entries}
    assert (record.faults, home.open_commitments.theatre_ids()) == ([], [])
    assert reasons == {"open": "abandoned", "here": "cancelled", "gone": "cancelled"}


async def test_keys_that_were_not_restored_are_not_made_anew(tmp_path: Path) -> None:
    home = TrustHome(tmp_path / "home")
    trust = home.open(issuer="me", at=AT)
    await append_entries(home, trust, [GOOD])
    for name, signs in (("issuer.pem", home.signer), ("log.pem", home.log_signer)):
        (home.folder / name).rename(tmp_path / name)
        with pytest.raises(SigningKeyError, match=f"expected the private key {name}"):
            signs(trust)
    with pytest.raises(SigningKeyError):
        await append_entries(home, trust, [BAD])
    (home.folder / "trust.json").unlink()
    with pytest.raises(SigningKeyError, match="next to the log"):
        home.open(issuer="another", at=AT)
    assert not {path.name for path in home.folder.iterdir()} & {"issuer.pem", "trust.json"}


async def test_what_is_no_copy_of_the_log_is_named_and_holds_nothing_up(tmp_path: Path) -> None:
    home, other = TrustHome(tmp_path / "home"), TrustHome(tmp_path / "other")
    trust = home.open(issuer="me", at=AT)
    await append_entries(home, trust, [GOOD])
    await append_entries(other, other.open(issuer="other", at=AT), [GOOD, BAD])
    places = [NOWHERE, str(other.folder / "log"), str(tmp_path / "none")]
    compared = await compare_with_others(home.log, trust, places)
    assert [one.split(": ")[0].split()[-1] for one in compared.missing] == places
