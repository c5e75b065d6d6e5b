"""The RLMF export: a sealed bundle as training records, one an episode that was run, streaming.

Source: docs/contract/template.md §6; docs/rlmf.md.
"""

from theatre.engine.rlmf_export.export import RLMF_SCHEMA, ExportSummary, RlmfExport
from theatre.engine.rlmf_export.records import measured_calibration
from theatre.engine.rlmf_export.sealed_bundle import (
    SealedBundle,
    SealedEpisode,
    judge_seed_of,
    judgements_of,
)
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
