"""The coin: what it draws, where it lies, when it is revealed, and what a lost one ends."""

import hmac
import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theatre.forged_bundle import Effort, lines, load, rechained, resealed, store
from tests.theatre.runs import (
    COIN,
    LATE,
    Finished,
    ScriptedAdapter,
    Stage,
    checked,
    episodes,
    pilot_stage,
)
from theatre.engine.bundle_check import Verdict
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject
from theatre.engine.coin import Coin, Draws, Purpose
from theatre.engine.errors import CoinError, InvalidTransitionError
from theatre.engine.replay import RunContext

VECTORS = Path(__file__).parents[2] / "fixtures" / "vectors" / "coin" / "draws.jsonl"
THEATRE = "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11"
COMMITMENT = "5e" * 32
DRAWS = Draws(COIN, COMMITMENT)
OTHER = Coin(bytes(32))
LOST = "lost"
SWAPPED = "swapped"


def by_hand(coin: bytes, *message: object) -> bytes:
    """Draw as docs/contract/earned.md §4 says, with the standard library alone."""
    key = hmac.new(coin, b"", "sha256").digest()
    text = json.dumps([*message], separators=(",", ":"), ensure_ascii=False)
    return hmac.new(key, text.encode(), "sha256").digest()


def test_every_published_vector_is_drawn() -> None:
    vectors: list[dict[str, Any]] = [json.loads(line) for line in VECTORS.read_bytes().splitlines()]
    assert {one["purpose"] for one in vectors} == {purpose.value for purpose in Purpose}
    for one in vectors:
        coin, purpose = Coin(bytes.fromhex(one["coin"])), Purpose(one["purpose"])
        drawn = coin.draw(purpose, one["commitment_hash"], *one["parts"])
        again = by_hand(coin.secret, one["purpose"], one["commitment_hash"], *one["parts"])
        assert (drawn.hex(), drawn) == (one["drawn"], again)


def test_an_alias_and_a_seed_are_the_digits_of_their_draws() -> None:
    drawn = by_hand(COIN.secret, "alias", COMMITMENT, "pilot-1").hex()
    assert DRAWS.alias("pilot-1") == f"ep_{drawn[:32]}"
    assert DRAWS.play_seed("pilot-1") == by_hand(COIN.secret, "play", COMMITMENT, "pilot-1").hex()
    assert DRAWS.judge_seed("pilot-1") == by_hand(COIN.secret, "judge", COMMITMENT, "pilot-1").hex()
    assert DRAWS.item_rank("pilot-1") == by_hand(COIN.secret, "item", COMMITMENT, "pilot-1")


@given(st.integers(1, 10**7), st.integers(0, 9), st.integers(0, 1), st.integers(0, 400))
def test_an_invocation_id_is_a_uuid_of_version_8_with_the_drawn_bits(
    seq: int, hop: int, repeat: int, turn: int
) -> None:
    drawn = by_hand(COIN.secret, "invocation", COMMITMENT, THEATRE, seq, hop, repeat, turn)
    named = DRAWS.invocation_id(THEATRE, seq=seq, hop=hop, repeat=repeat, turn=turn)
    made = UUID(named)
    assert (made.version, made.variant, str(made)) == (8, "specified in RFC 4122", named)
    kept = int.from_bytes(drawn[:16], "big") ^ made.int
    assert kept & ~(0xF << 76 | 0x3 << 62) == 0


def test_another_coin_commitment_or_purpose_draws_something_else() -> None:
    drawn = {
        coin.draw(purpose, commitment, "pilot-1")
        for coin in (COIN, OTHER)
        for commitment in (COMMITMENT, "00" * 32)
        for purpose in Purpose
    }
    assert len(drawn) == 2 * 2 * len(Purpose)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_coin_has_32_bytes(size: int) -> None:
    with pytest.raises(CoinError, match=f"expected a coin of 32 bytes, got {size}"):
        Coin(bytes(size))


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.removesuffix(b"\n"),
        lambda line: line + b"\n",
        lambda line: line.upper(),
        lambda line: b" " + line,
        lambda line: line[2:],
        lambda line: b"zz" + line[2:],
        lambda line: b"\xff" + line[1:],
        lambda line: line[:2] + b" " + line[2:],
        lambda _: b"",
    ],
)
def test_a_line_is_64_lower_case_digits_and_a_line_feed(change: Callable[[bytes], bytes]) -> None:
    line = Coin(b"\xab" * 32).line
    assert line == b"ab" * 32 + b"\n"
    assert Coin.from_line(line) == Coin(b"\xab" * 32)
    with pytest.raises(CoinError, match="expected a coin of 64 hex digits and a line feed"):
        Coin.from_line(change(line))


def test_no_representation_shows_a_coin() -> None:
    COIN.draw(Purpose.PLAY, COMMITMENT)
    assert (repr(COIN), str(COIN)) == ("Coin()", "Coin()")
    assert repr(DRAWS) == f"Draws(coin=Coin(), commitment_hash={COMMITMENT!r}, run_nonce=b'')"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    stage = pilot_stage(tmp_path_factory.mktemp("coin"), episodes(3))
    return stage.run(ScriptedAdapter())


def test_receipt_certificate_and_bundle_name_one_coin(run: Finished) -> None:
    named = [
        run.document(path)["coin_sha256"]
        for path in ("commitment_receipt.json", "certificate.json")
    ]
    revealed = (run.bundle / "coin.txt").read_bytes()
    assert named == [COIN.sha256, COIN.sha256]
    assert revealed == COIN.line
    sums = (run.bundle / "SHA256SUMS").read_text()
    assert "  coin.txt\n" in sums


def test_a_record_has_the_id_of_the_dataset_and_the_alias_that_was_sent(run: Finished) -> None:
    draws = Draws(COIN, str(run.document("certificate.json")["commitment_hash"]))
    for seq in (1, 2, 3):
        record, (call,) = run.record(seq), run.calls(seq)
        request: Any = call["request"]
        assert record["episode_id"] == f"pilot-{seq}"
        assert request["episode_id"] == draws.alias(f"pilot-{seq}")
        assert request["invocation_id"] == draws.invocation_id(run.theatre.theatre_id, seq=seq)


def test_no_request_has_an_id_of_the_dataset(tmp_path: Path) -> None:
    stage, adapter = pilot_stage(tmp_path, episodes(3)), ScriptedAdapter()
    stage.run(adapter)
    assert len({request.episode_id for request in adapter.asked}) == len(adapter.asked) == 3
    assert not [request for request in adapter.asked if "pilot-" in request.episode_id]


def test_only_the_owner_reads_the_coin_of_a_theatre_and_it_outlives_the_run(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(2))
    path = stage.folder / "coin"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == COIN.line


def without(coin: Coin | None) -> Callable[[RunContext], RunContext]:
    return lambda around: replace(around, coin=coin)


@pytest.mark.parametrize(
    ("coin", "seen"), [(None, "none"), (OTHER, "another one")], ids=[LOST, SWAPPED]
)
def test_a_run_without_its_coin_calls_nobody_and_ends(
    tmp_path: Path, coin: Coin | None, seen: str
) -> None:
    stage, adapter = pilot_stage(tmp_path, episodes(2)), ScriptedAdapter()
    finished = stage.run(adapter, around=without(coin))
    assert adapter.asked == []
    assert finished.theatre.state.value == "RESOLVED"
    assert finished.resolution == {
        "outcome": "failed",
        "outcome_reason": "coin-lost",
        "error_detail": f"expected the coin that the commitment names, got {seen}: what it draws "
        "is lost, and no other coin may stand in for it; commit the template again and run that",
        "statuses": {"success": 0, "timeout": 0, "error": 0, "refused": 0},
        "reasons": [],
    }
    assert not finished.bundle.exists()
    with pytest.raises(InvalidTransitionError):
        stage.run(adapter)


class PulledError(Exception):
    """The process is gone in the middle of a run."""


def interrupted(
    stage: Stage, after: int, *, around: Callable[[RunContext], RunContext] = lambda one: one
) -> None:
    """Run until so many calls were made, each of them durable."""
    made = 0

    def answer(_: Any) -> JsonObject:  # noqa: ANN401 - a request
        nonlocal made
        made += 1
        if made > after:
            raise PulledError
        return {"output_data": {"colour": "red", "recall": 0.5}}

    with pytest.raises(PulledError):
        stage.run(ScriptedAdapter(answer), batch_size=1, around=around)


def test_a_run_that_goes_on_has_the_same_coin(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(6))
    interrupted(stage, 3)
    finished = stage.run(ScriptedAdapter())
    undisturbed = pilot_stage(tmp_path / "other", episodes(6)).run(ScriptedAdapter())
    for seq in range(1, 7):
        one, other = finished.calls(seq)[0], undisturbed.calls(seq)[0]
        first: Any = one["request"]
        second: Any = other["request"]
        assert (first["episode_id"], first["invocation_id"]) == (
            second["episode_id"],
            second["invocation_id"],
        )
    assert checked(finished.bundle).verdict is Verdict.CONSISTENT


def test_a_run_that_loses_its_coin_in_the_middle_ends_with_what_it_has(tmp_path: Path) -> None:
    stage, adapter = pilot_stage(tmp_path, episodes(6)), ScriptedAdapter()
    interrupted(stage, 3)
    (stage.folder / "coin").unlink()
    finished = stage.run(adapter)
    assert (adapter.asked, finished.bundle.exists()) == ([], False)
    resolution: Any = finished.resolution
    assert (resolution["outcome"], resolution["outcome_reason"]) == ("failed", "coin-lost")
    assert resolution["statuses"]["success"] > 0


def test_a_sealed_bundle_needs_no_coin_any_more(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(2))
    sealed = stage.run(ScriptedAdapter())
    trail = stage.folder / "audit_trail.jsonl"
    kept = trail.read_bytes().splitlines(keepends=True)
    trail.write_bytes(b"".join(kept[:-1]))
    (stage.folder / "coin").unlink()
    assert stage.run(ScriptedAdapter()).resolution == sealed.resolution


@pytest.mark.parametrize("certificate_run", [True, False], ids=["nothing scored", "rehearsal"])
def test_a_run_without_a_bundle_reveals_nothing(tmp_path: Path, *, certificate_run: bool) -> None:
    unscorable = [{**one, "expected_output": {}} for one in episodes(2)]
    stage = pilot_stage(tmp_path, episodes(2) if not certificate_run else unscorable)
    finished = stage.run(ScriptedAdapter(), certificate_run=certificate_run)
    assert finished.resolution["outcome"] == "no_certificate"
    files = [path for path in finished.folder.rglob("*") if path.is_file()]
    revealing = [path.name for path in files if COIN.line.strip() in path.read_bytes()]
    assert revealing == ["coin"]


NONCE = bytes(range(32))


def logged(nonce: bytes = NONCE) -> Callable[[RunContext], RunContext]:
    return lambda around: replace(around, run_nonce=nonce)


@pytest.fixture(scope="module")
def logged_run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    stage = pilot_stage(tmp_path_factory.mktemp("nonce"), episodes(3))
    return stage.run(ScriptedAdapter(), around=logged())


def test_the_nonce_of_the_log_goes_into_every_draw() -> None:
    key = hmac.new(COIN.secret, NONCE, "sha256").digest()
    text = f'["item","{COMMITMENT}","pilot-1"]'
    drawn = Draws(COIN, COMMITMENT, NONCE)
    assert drawn.item_rank("pilot-1") == hmac.new(key, text.encode(), "sha256").digest()
    assert drawn.alias("pilot-1") != DRAWS.alias("pilot-1")
    assert drawn.invocation_id(THEATRE, seq=1) != DRAWS.invocation_id(THEATRE, seq=1)
    assert drawn.play_seed("pilot-1") != DRAWS.play_seed("pilot-1")
    ids = [f"pilot-{n}" for n in range(100)]
    assert drawn.repeated(ids, 10) != DRAWS.repeated(ids, 10)


def test_a_run_whose_commitment_is_logged_asks_by_its_nonce(logged_run: Finished) -> None:
    commitment = str(logged_run.document("certificate.json")["commitment_hash"])
    draws = Draws(COIN, commitment, NONCE)
    for seq in (1, 2, 3):
        request: Any = logged_run.calls(seq)[0]["request"]
        assert request["episode_id"] == draws.alias(f"pilot-{seq}")
        assert request["metadata"]["run_nonce"] == NONCE.hex()
    assert checked(logged_run.bundle).verdict is Verdict.CONSISTENT
    assert verify(logged_run.bundle, now=LATE).word == "consistent"


def test_a_run_goes_on_with_the_nonce_that_it_began_with(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(6))
    interrupted(stage, 3, around=logged())
    finished = stage.run(ScriptedAdapter(), around=logged(bytes(32)))
    for seq in range(1, 7):
        request: Any = finished.calls(seq)[0]["request"]
        assert request["metadata"]["run_nonce"] == NONCE.hex()
    assert checked(finished.bundle).verdict is Verdict.CONSISTENT


@pytest.mark.parametrize("nonce", [None, "00" * 32, "00", NONCE.hex().upper(), 7])
def test_another_nonce_than_that_of_the_calls_is_found(
    logged_run: Finished, tmp_path: Path, nonce: str | None
) -> None:
    files = load(logged_run.bundle)
    entries = lines(files, "audit_trail.jsonl")
    detail: Any = next(one for one in entries if one["event_type"] == "activated")["detail"]
    detail["run_nonce"] = nonce
    if nonce is None:
        del detail["run_nonce"]
    forged = store(resealed(rechained(files, entries), Effort.CERTIFIED_HASH), tmp_path / "forged")
    assert checked(forged).verdict is Verdict.NOT_VALID
    assert verify(forged, now=LATE).word == "not valid"


def test_proofs_may_lie_next_to_the_evidence_and_nothing_else_may(
    logged_run: Finished, tmp_path: Path
) -> None:
    names = ["commitment.tlog-proof", "certificate.tlog-proof", "certificate.sigstore.json"]
    proofs = {f"proofs/{name}": b"whatever" for name in [*names, "trust.json"]}
    files = load(logged_run.bundle)
    with_proofs = store(files | proofs, tmp_path / "with proofs")
    assert checked(with_proofs).verdict is Verdict.CONSISTENT
    assert not any(verify(with_proofs, now=LATE).problems.values())
    other = store(files | {"proofs/praise.json": b"{}\n"}, tmp_path / "with praise")
    assert checked(other).verdict is Verdict.NOT_VALID
    assert verify(other, now=LATE).word == "not valid"
