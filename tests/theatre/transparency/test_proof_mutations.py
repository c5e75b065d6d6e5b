"""No byte next to a bundle can be changed for the better, nor one of whom a reader trusts.

What is accepted is listed by name, with the reason. Both checks are asked of each change and must
agree. Some bytes are changed in every run, all of them in the soak.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from tests.theatre.runs import LATE
from tests.theatre.transparency.issued_bundle import WITNESS, IssuedBundle, asking_for, issue_bundle
from theatre.api.bundle_proofs import add_proof_checks, read_reader
from theatre.api.checks import check_folder
from theatre.engine.bundle_check import CheckReport
from theatre.engine.bundle_check.bundle_reader import Evidence
from theatre.engine.bundle_check.plain_json import DefectError
from theatre.engine.bundle_check.plain_notes import decoded, reader_of
from theatre.engine.bundle_check.plain_proofs import log_is_trusted, proofs_of
from theatre.engine.canonical_json import JsonValue, canonical_line
from theatre.transparency.errors import MalformedError
from theatre.transparency.notes import decode_base64

SAMPLE = 120
NOW = datetime(2026, 11, 23, 16, tzinfo=UTC)
PROOFS = ("commitment.tlog-proof", "certificate.sigstore.json", "certificate.tlog-proof")
TRUST = "trust.json"
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
Lines = dict[str, bool | None]


@dataclass(frozen=True)
class Target:
    """A bundle whose proofs may be changed, and what both checks say of it, read once."""

    issued: IssuedBundle
    trust: Path
    report: CheckReport
    evidence: Evidence

    def lines(self) -> Lines | None:
        """Return how the lines end, the same in both; None where there is no trust.json."""
        try:
            reader = reader_of(self.trust.read_bytes())
        except DefectError:
            reader = None
        try:
            trusted = read_reader(self.trust, None, self.issued.bundle)
        except MalformedError:
            assert reader is None
            return None
        assert reader is not None
        alone = proofs_of(self.evidence, reader)
        report = add_proof_checks(self.report, self.issued.bundle, trusted, online=False, now=NOW)
        lines = {line.id: line.ok for line in report.checks[len(self.report.checks) :]}
        assert ({line.id: line.ok for line in alone}, log_is_trusted(alone)) == (
            lines,
            report.logged,
        )
        return lines

    def place(self, name: str) -> Path:
        """Return where a file lies: the reader's trust.json is his own."""
        return self.trust if name == TRUST else self.issued.bundle / "proofs" / name

    def lines_with(self, name: str, data: bytes) -> Lines | None:
        """Return how the lines end with other bytes in one file."""
        path = self.place(name)
        before = path.read_bytes()
        path.write_bytes(data)
        try:
            return self.lines()
        finally:
            path.write_bytes(before)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    folder = tmp_path_factory.mktemp("target")
    issued = issue_bundle(folder, witness=WITNESS)
    trust = issued.trust_file(folder, **asking_for(issued.trust, WITNESS))
    report = check_folder(issued.bundle)
    engine = report._replace(checks=report.checks[: -len(ALL)])
    return Target(issued, trust, engine, Evidence(folder=issued.bundle, now=LATE))


ALL: Lines = {
    "signature": True,
    "signer-trusted": True,
    "commitment-logged": True,
    "certificate-logged": True,
    "order": True,
    "witnesses": True,
    "closure": None,
}


def test_a_reader_without_a_home_checks_all_the_same(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "ECHELON_TRUST_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)
    report = add_proof_checks(target.report, target.issued.bundle, None, online=False, now=NOW)
    assert not report.failed


@dataclass(frozen=True)
class ByteMutant:
    """One byte of a file: another one, gone, or there twice."""

    name: str
    place: int
    kind: str

    def of(self, data: bytes) -> bytes:
        """Return the changed file."""
        head, byte, tail = data[: self.place], data[self.place], data[self.place + 1 :]
        middle = {
            "another bit": bytes([byte ^ 1]),
            "another case": bytes([byte ^ 0x20]),
            "no ASCII": bytes([byte ^ 0x80]),
            "gone": b"",
            "twice": bytes([byte, byte]),
        }[self.kind]
        return head + middle + tail


KINDS = ("another bit", "another case", "no ASCII", "gone", "twice")


def mutants(target: Target) -> Iterator[ByteMutant]:
    for name in (*PROOFS, TRUST):
        for place in range(len(target.place(name).read_bytes())):
            for kind in KINDS:
                yield ByteMutant(name, place, kind)


def chosen(target: Target) -> list[ByteMutant]:
    """Return as many as are asked for, the same every time, and one of each signature."""
    every = sorted(
        mutants(target),
        key=lambda one: hashlib.sha256(f"{one.name} {one.place} {one.kind}".encode()).digest(),
    )
    return [*in_each_signature(target), *every[:SAMPLE]]


def in_each_signature(target: Target) -> Iterator[ByteMutant]:
    """Yield one mutant in the signature of each line of each checkpoint, at its last whole byte."""
    for name in (PROOFS[0], PROOFS[2]):
        data = target.place(name).read_bytes()
        ends = [place for place, byte in enumerate(data) if byte == ord("\n")][-2:]
        yield from (ByteMutant(name, end - 6, "another bit") for end in ends)


ACCEPTED = {
    "issuer": "a name for the reader's eyes: the keys are what he trusts",
    "keys/0/valid_from": "the time from which the key counts, while it is not after the signature",
    "policy": "white space in a policy says nothing",
    "": "white space in JSON says nothing",
}
"""Place in the reader's own trust.json → why a change of it is accepted. Of proofs, none is."""


def place_of(before: bytes, after: bytes) -> str:
    """Return the member of a trust.json that was changed; empty where the value is the same."""
    old, new = dict(members(json.loads(before))), dict(members(json.loads(after)))
    assert old.keys() == new.keys()
    (changed,) = [name for name, one in old.items() if one != new[name]] or [""]
    if changed == "policy":
        assert old["policy"].split() == new["policy"].split()
    return changed


def members(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - any JSON
    """Yield path and value of all that is neither object nor array."""
    if not isinstance(value, dict | list):
        yield path.removeprefix("/"), value
        return
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from members(item, f"{path}/{name}")


def stranger(data: bytes) -> bytes:
    return data + "— stranger.example AAAAAAAA\n".encode()


def twice(data: bytes) -> bytes:
    return data + data.splitlines(keepends=True)[-1]


def swapped(data: bytes) -> bytes:
    *head, log, witness = data.splitlines(keepends=True)
    return b"".join([*head, witness, log])


def extra(data: bytes) -> bytes:
    return data.replace(b"\nindex ", b"\nextra bW9yZQ==\nindex ")


def other_root(data: bytes) -> bytes:
    """Return the other signature that ECDSA has for the same message: (r, n - s)."""
    document = json.loads(data)
    (signature,) = document["dsseEnvelope"]["signatures"]
    r, s = decode_dss_signature(base64.b64decode(signature["sig"]))
    signature["sig"] = base64.b64encode(encode_dss_signature(r, P256_ORDER - s)).decode()
    return canonical_line(document)


ADDED = {
    stranger: "a line of an unknown key says nothing: anyone may add one (C2SP signed-note)",
    twice: "the same cosignature once more says nothing more",
    swapped: "the order of signature lines says nothing",
    extra: "the log does not vouch for it, and nothing here reads it (C2SP tlog-proof)",
    other_root: "ECDSA has two signatures of a message; what the log has is the hash of this one",
}
"""Larger changes of the proofs that are accepted, and why."""


@pytest.mark.parametrize("change", ADDED, ids=lambda change: change.__name__)
def test_these_changes_are_accepted_and_say_nothing(
    target: Target, change: Callable[[bytes], bytes]
) -> None:
    for name in PROOFS:
        if (name == PROOFS[1]) is (change is other_root):
            before = target.place(name).read_bytes()
            assert (change(before) != before, target.lines_with(name, change(before))) == (
                True,
                ALL,
            )


@pytest.mark.parametrize("text", ["AB==", "QQ", "QQ==\n", " QQ==", "QQ==QQ==", "QR==", "Q-==", "é"])
def test_base64_has_one_spelling(text: str) -> None:
    with pytest.raises(DefectError):
        decoded(text)
    with pytest.raises(MalformedError):
        decode_base64(text)
    assert decoded("QQ==") == decode_base64("QQ==") == b"A"


def test_nothing_that_is_missing_passes_and_nothing_makes_a_check_raise(target: Target) -> None:
    for name in (*PROOFS, TRUST):
        before = target.place(name).read_bytes()
        for data in (b"", b"{}\n", b"null", b"[" * 10_000, b"\n\n", before[:-1], before * 2):
            if name != TRUST or data != before[:-1]:
                assert target.lines_with(name, data) != ALL
    document = json.loads(target.trust.read_bytes())
    others: tuple[JsonValue, ...] = (None, 7, -1, "", [], {}, [[]], "0" * 70_000, True)
    for value in others:
        for path, _ in members(document):
            *folders, last = [int(name) if name.isdigit() else name for name in path.split("/")]
            changed = json.loads(json.dumps(document))
            inner = changed
            for folder in folders:
                inner = inner[folder]
            inner[last] = value
            target.lines_with(TRUST, canonical_line(changed))
            del inner[last]
            assert target.lines_with(TRUST, canonical_line(changed)) is None


def accepted_places(target: Target, tried: Iterable[ByteMutant]) -> set[str]:
    """Return where in the reader's trust.json a change is accepted; elsewhere none is."""
    accepted = set()
    for mutant in tried:
        before = target.place(mutant.name).read_bytes()
        after = mutant.of(before)
        if target.lines_with(mutant.name, after) == ALL:
            assert mutant.name == TRUST, mutant
            accepted.add(place_of(before, after))
    return accepted


def test_no_byte_can_be_changed_but_those_on_the_list(target: Target) -> None:
    assert target.lines() == ALL
    assert accepted_places(target, chosen(target)) <= ACCEPTED.keys()


def test_every_byte_is_changed_and_the_list_holds(target: Target) -> None:
    assert accepted_places(target, mutants(target)) == ACCEPTED.keys()
