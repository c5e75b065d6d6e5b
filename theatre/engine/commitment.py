"""The commitment: one hash over template, pins and dataset hashes, before anything runs.

Source: contract/evidence.md §2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from theatre.engine.canonical_json import JsonObject, canonical_sha256
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import CommitmentError
from theatre.engine.models import freeze_object

CANONICALISATION = "RFC8785"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitmentReceipt:
    """Proof of what was committed, frozen deeply. `escrowed_capital` is null but for markets."""

    theatre_id: str
    commitment_hash: str
    template_snapshot: JsonObject
    version_pins: JsonObject
    dataset_hashes: JsonObject
    scorer_pins: JsonObject
    escrowed_capital: float | None
    committed_at: str
    canonicalisation: str = CANONICALISATION

    def as_document(self) -> JsonObject:
        """Return `commitment_receipt.json`."""
        return {
            "theatre_id": self.theatre_id,
            "commitment_hash": self.commitment_hash,
            "template_snapshot": self.template_snapshot,
            "version_pins": self.version_pins,
            "dataset_hashes": self.dataset_hashes,
            "scorer_pins": self.scorer_pins,
            "escrowed_capital": self.escrowed_capital,
            "canonicalisation": self.canonicalisation,
            "committed_at": self.committed_at,
        }

    @classmethod
    def from_document(cls, document: JsonObject) -> CommitmentReceipt:
        """Read a receipt back and recompute its hash (errors as `CommitmentProtocol.verify`)."""
        frozen = freeze_object(document)
        receipt = cls(
            theatre_id=cast("str", frozen["theatre_id"]),
            commitment_hash=cast("str", frozen["commitment_hash"]),
            template_snapshot=cast("JsonObject", frozen["template_snapshot"]),
            version_pins=cast("JsonObject", frozen["version_pins"]),
            dataset_hashes=cast("JsonObject", frozen["dataset_hashes"]),
            scorer_pins=cast("JsonObject", frozen["scorer_pins"]),
            escrowed_capital=cast("float | None", frozen["escrowed_capital"]),
            committed_at=cast("str", frozen["committed_at"]),
            canonicalisation=cast("str", frozen["canonicalisation"]),
        )
        CommitmentProtocol.verify(receipt)
        return receipt


class CommitmentProtocol:
    """Makes and recomputes commitments."""

    @staticmethod
    def compute_hash(
        template: JsonObject, *, version_pins: JsonObject, dataset_hashes: JsonObject
    ) -> str:
        """Return the SHA-256 over the canonical bytes of the one composite object."""
        return canonical_sha256(
            {"dataset_hashes": dataset_hashes, "template": template, "version_pins": version_pins}
        )

    @staticmethod
    def hash_template(template: JsonObject) -> str:
        """Return the commitment hash of a template, its own pins and hashes (else `{}`)."""
        return CommitmentProtocol.compute_hash(
            template,
            version_pins=_member(template, "version_pins"),
            dataset_hashes=_member(template, "dataset_hashes"),
        )

    @staticmethod
    def commit(
        theatre_id: str,
        template: JsonObject,
        *,
        scorer_pins: Mapping[str, str],
        committed_at: datetime,
        escrowed_capital: float | None = None,
    ) -> CommitmentReceipt:
        """Return the receipt for a validated template whose datasets have been verified.

        `scorer_pins` are the versions in use, which the validator held against the template's.
        """
        snapshot = freeze_object(template)
        return CommitmentReceipt(
            theatre_id=theatre_id,
            commitment_hash=CommitmentProtocol.hash_template(snapshot),
            template_snapshot=snapshot,
            version_pins=_member(snapshot, "version_pins"),
            dataset_hashes=_member(snapshot, "dataset_hashes"),
            scorer_pins=freeze_object(dict(scorer_pins)),
            escrowed_capital=escrowed_capital,
            committed_at=format_rfc3339(committed_at),
        )

    @staticmethod
    def verify(receipt: CommitmentReceipt) -> None:
        """Raise CommitmentError unless the receipt's parts agree and its hash recomputes."""
        template = receipt.template_snapshot
        for name, copy in (
            ("version_pins", receipt.version_pins),
            ("dataset_hashes", receipt.dataset_hashes),
        ):
            if canonical_sha256(_member(template, name)) != canonical_sha256(copy):
                raise CommitmentError(
                    f"expected the receipt's {name} to equal the template's, got other ones"
                )
        recomputed = CommitmentProtocol.hash_template(template)
        if recomputed != receipt.commitment_hash:
            raise CommitmentError(
                f"expected commitment {receipt.commitment_hash}, got {recomputed} from its parts"
            )


def _member(template: JsonObject, name: str) -> JsonObject:
    value = template.get(name)
    return value if isinstance(value, dict) else {}
