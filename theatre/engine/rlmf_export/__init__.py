"""The RLMF export: a sealed bundle as training records, one an episode that was run, streaming.

Each is held to the schema before it leaves. Source: docs/contract/template.md §6; docs/rlmf.md.
"""

import hashlib
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, cast

from theatre.engine.canonical_json import JsonObject, canonical_line
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import RlmfExportError
from theatre.engine.rlmf_export.records import (
    EXPORT_VERSION,
    ExportFacts,
    fork_reading,
    measured_calibration,
    training_record,
)
from theatre.engine.rlmf_export.sealed_bundle import (
    SealedBundle,
    SealedEpisode,
    judge_seed_of,
    judgements_of,
)
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring.repeats import outputs_of

__all__ = [
    "RLMF_SCHEMA",
    "ExportSummary",
    "RlmfExport",
    "SealedBundle",
    "SealedEpisode",
    "judge_seed_of",
    "judgements_of",
    "measured_calibration",
    "outputs_of",
]

RLMF_SCHEMA = "echelon_rlmf_schema.json"

CalibrationReader = Callable[[SealedBundle], JsonObject | None]
"""Bundle → the member `calibration` of its records; None where nothing was measured."""


class ExportSummary(NamedTuple):
    """The result of an export: records, episodes that were not run, SHA-256 over all its bytes."""

    records: int
    not_run: int
    sha256: str

    def as_document(self) -> JsonObject:
        """Return the detail of the `archived` event."""
        return {
            "export": "rlmf",
            "export_version": EXPORT_VERSION,
            "records": self.records,
            "not_run": self.not_run,
            "export_sha256": self.sha256,
        }


class RlmfExport:
    """The export of one bundle: the same bytes each time for the same `exported_at`."""

    def __init__(
        self,
        bundle: Path,
        registry: SchemaRegistry,
        *,
        exported_at: datetime,
        calibration: CalibrationReader = measured_calibration,
    ) -> None:
        """Find the bundle intact and its answers readable as options.

        `calibration` reads what every record says of the whole run. Raises NotFoundError,
        BundleError, RlmfExportError, and what `calibration` raises.
        """
        self._bundle = SealedBundle(bundle)
        self._violations = registry.validate_cached(RLMF_SCHEMA)
        self._facts = ExportFacts(
            template=self._bundle.template,
            certificate=self._bundle.certificate,
            calibration=calibration(self._bundle),
            reading=fork_reading(self._bundle.template),
            exported_at=format_rfc3339(exported_at),
        )
        self._records = 0
        self._hasher = hashlib.sha256()

    def lines(self) -> Iterator[bytes]:
        """Yield a canonical line for each episode that was run, in dataset order, once.

        Streaming: of the episodes only their ids and gold labels are held. Raises
        RlmfExportError for a record that breaks its schema, BundleError for a gap.
        """
        for episode in self._bundle.episodes():
            record = training_record(self._facts, episode)
            if violations := self._violations(record):
                listed = "; ".join(f"{each.pointer or '/'}: {each.detail}" for each in violations)
                raise RlmfExportError(
                    f"expected a record of episode {record['timestep']} that fits {RLMF_SCHEMA}, "
                    f"got: {listed[:1500]}"
                )
            line = canonical_line(record)
            self._records += 1
            self._hasher.update(line)
            yield line

    def summary(self) -> ExportSummary:
        """Return what `lines` gave, once it is through."""
        counts = cast("dict[str, int]", self._bundle.certificate["episode_counts"])
        return ExportSummary(
            records=self._records, not_run=counts["not_run"], sha256=self._hasher.hexdigest()
        )
