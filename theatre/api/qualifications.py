"""Qualifications of measures: written, signed, and checked again by anyone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from theatre.api.bundle_proofs import Reader
from theatre.api.named_files import read_file
from theatre.engine.bundle_check import Check, CheckReport, CheckStatus
from theatre.engine.bundle_check.report import DefectError, printable, require_same
from theatre.engine.canonical_json import (
    JsonObject,
    canonical_line,
    canonical_sha256,
    parse_object,
    sha256_hex,
)
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import NotFoundError, QualificationError, TheatreError
from theatre.engine.models import Scorer
from theatre.engine.scoring.qualification import counted_again
from theatre.files.durable import replace_durably
from theatre.files.trust_home import TrustHome, trust_folder
from theatre.transparency.statements import (
    SignedStatement,
    named_key,
    qualification_statement,
    sign_statement,
)
from theatre.verification.labelled_claims import LabelledClaims, read_labelled, score_claims


def read_labelled_files(paths: Iterable[Path]) -> LabelledClaims:
    """Return the set in files, or in the `.jsonl` files of folders; NotFoundError for none."""
    files = [
        file
        for path in paths
        for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])
    ]
    return read_labelled(read_file(file, what="labelled claims") for file in files)


def statement_path(path: Path) -> Path:
    """Return where the signature of a qualification lies."""
    return path.with_suffix(".sigstore.json")


def exchanges_path(path: Path) -> Path:
    """Return where a judge's exchanges lie."""
    return path.with_suffix(".exchanges.jsonl")


def exchange_lines(exchanges: Mapping[str, Sequence[JsonObject]]) -> bytes:
    """Return a line for each claim, sorted by its id."""
    return b"".join(
        canonical_line({"claim_id": claim, "exchanges": list(asked)})
        for claim, asked in sorted(exchanges.items())
    )


def read_exchanges(data: bytes) -> dict[str, list[JsonObject]]:
    """Return claim → exchanges; QualificationError for lines that are none."""
    found: dict[str, list[JsonObject]] = {}
    for line in map(parse_object, data.splitlines()):
        claim, asked = line.get("claim_id"), line.get("exchanges")
        if (
            not isinstance(claim, str)
            or not isinstance(asked, list)
            or not all(isinstance(one, dict) for one in asked)
        ):
            raise QualificationError("expected claim_id and exchanges in a line, got others")
        found[claim] = cast("list[JsonObject]", asked)
    return found


def write_qualification(path: Path, document: JsonObject, issuer: str, at: datetime) -> str:
    """Write and sign a qualification; return the id of the key, which signs certificates too."""
    home = TrustHome(trust_folder(os.environ))
    trust = home.open(issuer=issuer, at=at)
    payload = qualification_statement(document, canonical_sha256(document))
    signed = sign_statement(payload, home.signer(trust))
    replace_durably(path, canonical_line(document))
    replace_durably(statement_path(path), signed)
    return trust.keys[-1].key.kid


def check_qualification(
    path: Path,
    scorers: Mapping[str, Scorer],
    *,
    labelled: LabelledClaims | None = None,
    reader: Reader | None = None,
) -> CheckReport:
    """Return a line for each check of a qualification's file and of what lies next to it.

    `labelled` is the set that it was made with, without which neither labels nor scores can be
    looked at; `reader` is whose keys count, None for the author of what is his own.
    """
    data = read_file(path, what="a qualification")
    checks = []
    document: JsonObject = {}

    def line(name: str, wanted: str, found: str, *, ok: bool | None) -> None:
        status = {True: CheckStatus.PASS, False: CheckStatus.FAIL, None: CheckStatus.UNANCHORED}[ok]
        checks.append(Check(id=name, status=status, expected=wanted, actual=printable(found)))

    wanted = "figures that follow from the rows, in canonical JSON"
    try:
        document = parse_object(data)
        require_same("", counted_again(document), document)
        if canonical_line(document) != data:
            raise DefectError("RFC 8785 bytes and a line feed", "another spelling")
    except TheatreError as error:
        line("figures", wanted, str(error), ok=False)
        return CheckReport(checks=tuple(checks))
    rows = cast("list[JsonObject]", document["rows"])
    line("figures", wanted, f"{len(rows)} rows", ok=True)
    for name, wanted, found, ok in _against_labels(path, document, scorers, labelled):
        line(name, wanted, found, ok=ok)
    wanted = "this qualification, signed by a key that the reader trusts"
    words = None
    try:
        found, words = _signer(path, document, reader)
        line("signature", wanted, found, ok=True if words else None)
    except TheatreError as error:
        line("signature", wanted, str(error), ok=False)
    return CheckReport(checks=tuple(checks), signed_by=words)


_Line = tuple[str, str, str, bool | None]


def _against_labels(
    path: Path,
    document: JsonObject,
    scorers: Mapping[str, Scorer],
    labelled: LabelledClaims | None,
) -> Iterable[_Line]:
    wanted = "the labels and texts of the set, every claim of it"
    if labelled is None:
        yield "labelled-set", wanted, "give --labelled with the set that it names", None
        yield "measured", "each score as the measure gives it", "rests on the labelled set", None
        return
    measure = cast("dict[str, Any]", document["measure"])
    name = str(measure["scorer"])
    rows = cast("list[JsonObject]", document["rows"])
    labels = [row.as_document() | {"score": None} for row in labelled.rows]
    said = cast("JsonObject", document["labelled_set"])
    same = labels == [row | {"score": None} for row in rows]
    same = same and said["texts_sha256"] == labelled.texts_sha256
    yield "labelled-set", wanted, "the same" if same else "another set", same
    wanted = "each score as the measure gives it"
    scorer = scorers.get(name)
    if scorer is None or scorer.version != measure["version"]:
        yield "measured", wanted, f"{name}@{measure['version']} is not installed", None
        return
    if scorer.kind != measure["kind"]:
        yield "measured", wanted, f"{name} is {scorer.kind}", False
        return
    exchanges = None
    if scorer.judgement is not None:
        try:
            lines = read_file(exchanges_path(path), what="the exchanges with the judge")
        except NotFoundError as error:
            yield "measured", wanted, str(error), None
            return
        if sha256_hex(lines) != document["exchanges_sha256"]:
            yield "measured", wanted, "exchanges of another hash", False
            return
        try:
            exchanges = read_exchanges(lines)
        except TheatreError as error:
            yield "measured", wanted, str(error), False
            return
    made = score_claims(labelled, scorer, measure["params"], exchanges)
    same = [row.as_document() for row in made] == rows
    yield "measured", wanted, "the same" if same else "other scores", same


def _signer(path: Path, document: JsonObject, reader: Reader | None) -> tuple[str, str | None]:
    """Return what a signature shows, and whose it is in words; None where no one trusts it.

    Raises TransparencyError where it is wrong.
    """
    try:
        data = read_file(statement_path(path), what="a signature")
    except NotFoundError as error:
        return str(error), None
    if reader is None:
        trust = TrustHome(trust_folder(os.environ)).read()
        if trust is None or named_key(data) not in {key.kid for key in trust.issuer_keys()}:
            return "signed; give --trust with the signer's trust.json to verify it", None
        words = "signed by your own key"
    else:
        trust, words = reader.trust, reader.words
    signed = SignedStatement.verify(data, trust.issuer_keys())
    if signed.payload != qualification_statement(document, canonical_sha256(document)):
        raise DefectError("a statement about this qualification", "one about another")
    at = parse_rfc3339(cast("str", document["qualified_at"]))
    key = next(one for one in trust.keys if one.key.kid == signed.kid)
    key.check_entry(at=at, index=None)
    return f"{words}: {signed.kid}", words
