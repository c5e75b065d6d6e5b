"""Qualifications of measures: written, signed, and checked again by anyone."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from theatre.api.bundle_proofs import Reader
from theatre.api.named_files import read_file
from theatre.engine.bundle_check import Check, CheckReport, CheckStatus
from theatre.engine.bundle_check.folder import TEMPLATE
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
from theatre.engine.replay import DatasetSource
from theatre.engine.schema_registry import SchemaViolation, json_pointer, resource_root
from theatre.engine.scoring.measure_policy import Qualification, named_qualifications
from theatre.engine.scoring.qualification import counted_again
from theatre.engine.templates import ProductTheatreTemplate
from theatre.files.durable import replace_durably
from theatre.files.trust_home import TrustHome, trust_folder
from theatre.scorers import load_scorers
from theatre.transparency.statements import (
    SignedStatement,
    named_key,
    qualification_statement,
    sign_statement,
)
from theatre.transparency.trust import Trust
from theatre.verification.labelled_claims import (
    LabelledClaims,
    read_labelled,
    score_claims,
    usage_of_exchanges,
)

_JUDGED_AGAIN = "second_pass_"
_SHIPPED_SET = Path("fixtures", "labelled", "changes")


def read_labelled_files(paths: Iterable[Path]) -> LabelledClaims:
    """Return the set in files, or in the `.jsonl` files of folders; NotFoundError for none."""
    files = [
        file
        for path in paths
        for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])
        # How others labelled the same claims is no part of the set.
        if not (path.is_dir() and file.name.startswith(_JUDGED_AGAIN))
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
    path: Path, document: JsonObject, scorers: Mapping[str, Scorer], labelled: LabelledClaims | None
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
    exchanges = usage = None
    try:
        if scorer.judgement is not None:
            lines = read_file(exchanges_path(path), what="the exchanges with the judge")
            if sha256_hex(lines) != document["exchanges_sha256"]:
                raise QualificationError("exchanges of another hash")
            exchanges = read_exchanges(lines)
            usage = usage_of_exchanges(exchanges)
        made = [
            row.as_document()
            for row in score_claims(labelled, scorer, measure["params"], exchanges)
        ]
        require_same("usage", usage, document["usage"])
    except NotFoundError as error:
        yield "measured", wanted, str(error), None
    except TheatreError as error:
        yield "measured", wanted, str(error), False
    else:
        yield "measured", wanted, "the same" if made == rows else "other scores", made == rows


def _signer(path: Path, document: JsonObject, reader: Reader | None) -> tuple[str, str | None]:
    """Return what a signature shows, and whose it is in words; None where no one trusts it.

    Raises TransparencyError where it is wrong.
    """
    try:
        data = read_file(statement_path(path), what="a signature")
    except NotFoundError as error:
        return str(error), None
    return _signer_of(data, document, reader)


def own_trust() -> Trust | None:
    """Return the keys of the user, by which certificates are signed here; None where he has none.

    Raises TransparencyError for a `trust.json` that is none.
    """
    return TrustHome(trust_folder(os.environ)).read()


def _signer_of(data: bytes, document: JsonObject, reader: Reader | None) -> tuple[str, str | None]:
    if reader is not None:
        return _signed(data, document, reader.trust, reader.words)
    trust = own_trust()
    if trust is None or not _is_named(data, trust):
        return "signed; give --trust with the signer's trust.json to verify it", None
    return _signed(data, document, trust, "signed by your own key")


def _is_named(data: bytes, trust: Trust) -> bool:
    return named_key(data) in {key.kid for key in trust.issuer_keys()}


def _signed(data: bytes, document: JsonObject, trust: Trust, words: str) -> tuple[str, str]:
    signed = SignedStatement.verify(data, trust.issuer_keys())
    if signed.payload != qualification_statement(document, canonical_sha256(document)):
        raise DefectError("a statement about this qualification", "one about another")
    at = parse_rfc3339(cast("str", document["qualified_at"]))
    key = next(one for one in trust.keys if one.key.kid == signed.kid)
    key.check_entry(at=at, index=None)
    return f"{words}: {signed.kid}", words


# A template that relies on qualifications, and a bundle of its run.


def qualification_faults(
    document: JsonObject,
    view: ProductTheatreTemplate,
    datasets: DatasetSource,
    trust: Callable[[], Trust | None] = own_trust,
) -> Iterator[SchemaViolation]:
    """Yield what keeps the qualifications that a template names from being relied on here.

    A file that is none, or is about another measure; one that none of the keys in `trust` signed,
    which sign certificates here; and scores that the measure, where it is pure, does not give.
    """
    scorers = load_scorers()
    choices = view.scoring.criteria_scorers
    paths = view.product_theatre_config.dataset_paths
    for criterion, (name, sha256) in named_qualifications(document).items():
        pointer = json_pointer("scoring", "qualifications", criterion)
        try:
            with contextlib.closing(
                datasets.open(paths[name], sha256=view.dataset_hashes[name])
            ) as file:
                (data,) = file.lines()
            qualification = Qualification.read([data], sha256=sha256)
            choice = choices[criterion]
            version = scorers[choice.scorer].version
            fault = qualification.misfit(choice.scorer, version, choice.params)
            if fault is not None:
                raise QualificationError(f"expected one of {choice.scorer}@{version}, got: {fault}")
            _require_vouched(data + b"\n", qualification.document, scorers, trust())
        except (ValueError, TheatreError) as error:
            yield SchemaViolation(
                pointer=pointer, rule="qualification-fits", detail=f"the qualification: {error}"
            )


def _require_vouched(
    data: bytes, document: JsonObject, scorers: Mapping[str, Scorer], trust: Trust | None
) -> None:
    """Raise QualificationError unless a key that signs certificates here signed it rightly."""
    if trust is None or not _is_named(data, trust):
        raise QualificationError(
            "expected a signature by a key that signs certificates here, got one by "
            f"{named_key(data)}: make it with `echelon qualify`"
        )
    _signed(data, document, trust, "")
    if _is_measured(document, scorers) is False:
        raise QualificationError("expected the scores that the measure gives, got others")


def _is_measured(document: JsonObject, scorers: Mapping[str, Scorer]) -> bool | None:
    """Return whether a pure measure gives these scores on the shipped set; None if unknown."""
    measure = cast("dict[str, Any]", document["measure"])
    scorer = scorers.get(measure["scorer"])
    folder = resource_root() / _SHIPPED_SET
    said = cast("JsonObject", document["labelled_set"])["texts_sha256"]
    if scorer is None or scorer.version != measure["version"] or scorer.judgement is not None:
        return None
    labelled = read_labelled_files([folder]) if folder.is_dir() else None
    if labelled is None or labelled.texts_sha256 != said:
        return None
    made = score_claims(labelled, scorer, measure["params"])
    return [row.as_document() for row in made] == document["rows"]


def add_qualification_check(
    report: CheckReport, bundle: Path, reader: Reader | None, scorers: Mapping[str, Scorer]
) -> CheckReport:
    """Return the report with a line on who signed what the measures of a run rest on.

    Without one where the template names none, or where the bundle does not hold.
    """
    if report.failed or not (bundle / TEMPLATE).is_file():
        return report
    template = parse_object((bundle / TEMPLATE).read_bytes())
    found, status = [], CheckStatus.PASS
    for criterion, (name, sha256) in sorted(named_qualifications(template).items()):
        data = read_file(bundle / "ground_truth" / f"{name}.jsonl", what="a qualification")
        try:
            qualification = Qualification.read(data.splitlines(), sha256=sha256)
            text, words = _signer_of(data, qualification.document, reader)
            if _is_measured(qualification.document, scorers) is False:
                raise QualificationError("expected the scores that the measure gives, got others")
        except TheatreError as error:
            text, status = str(error), CheckStatus.FAIL
        else:
            if words is None and status is CheckStatus.PASS:
                status = CheckStatus.UNANCHORED
        found.append(f"{criterion}: {text}")
    if not found:
        return report
    line = Check(
        id="qualifications",
        status=status,
        expected="qualifications signed by a key that the reader trusts, measured again if pure",
        actual=printable("; ".join(found)),
    )
    return report._replace(checks=(*report.checks, line))
