"""The JSON documents of a bundle, parsed strictly and held to their canonical form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from theatre.engine.bundle_check.reading.folder import MAX_DOCUMENT_BYTES, BundleFolder
from theatre.engine.bundle_check.reading.json_values import NOTHING, DefectError, Nothing, at
from theatre.engine.bundle_check.report import CheckId, Ledger
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line, parse_object
from theatre.engine.errors import ParseError

MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
CERTIFICATE = "certificate.json"
TEMPLATE = "template.json"
RECEIPT = "commitment_receipt.json"
AGGREGATE = "scores/aggregate.json"
PER_EPISODE = "scores/per_episode.jsonl"
RESOLUTION = "resolution.json"
TIER = "tier.json"
AUDIT_TRAIL = "audit_trail.jsonl"

DOCUMENTS = (MANIFEST, CERTIFICATE, TEMPLATE, RECEIPT, AGGREGATE, RESOLUTION, TIER)
"""The files that hold one JSON object each, invocation records aside."""


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents that could be read, by path."""

    by_path: Mapping[str, JsonObject]

    def get(self, path: str) -> JsonObject | None:
        """Return a document, or None where it is missing or no strict JSON."""
        return self.by_path.get(path)

    def at(self, path: str, *keys: str | int) -> JsonValue | Nothing:
        """Return what lies in a document at `keys`, or NOTHING."""
        document = self.by_path.get(path)
        return NOTHING if document is None else at(document, *keys)


def read_documents(folder: BundleFolder, ledger: Ledger) -> Documents:
    """Read every document there is; what is wrong with its form goes to `canonical-form`."""
    found: dict[str, JsonObject] = {}
    for path in DOCUMENTS:
        if path not in folder.files:
            continue
        try:
            found[path] = canonical_object(folder.read(path), path, ledger)
        except DefectError as defect:
            ledger.wrong(CheckId.CANONICAL_FORM, defect.expected, defect.actual)
    return Documents(found)


def canonical_object(raw: bytes, where: str, ledger: Ledger) -> JsonObject:
    """Parse one document or line; another form of the same value is noted, not refused.

    Raises DefectError for what is no JSON object by the strict parser.
    """
    try:
        document = parse_object(raw, max_bytes=MAX_DOCUMENT_BYTES)
    except ParseError as error:
        raise DefectError(f"{where} as a strict JSON object", str(error)) from error
    if canonical_line(document) != raw:
        ledger.wrong(
            CheckId.CANONICAL_FORM,
            f"{where} as RFC 8785 bytes and a line feed",
            "other bytes of the same value",
        )
    return document
