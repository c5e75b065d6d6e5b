"""The independent check of an evidence bundle (docs/contract/evidence.md).

Imports nothing that writes bundles: what it knows, it has from the published format.
"""

from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.bundle_check.evidence import InputSanitiser, SanitisedInput
from theatre.engine.bundle_check.report import Check, CheckId, CheckReport, CheckStatus, Verdict

__all__ = [
    "Check",
    "CheckId",
    "CheckReport",
    "CheckStatus",
    "InputSanitiser",
    "SanitisedInput",
    "Verdict",
    "check_bundle",
]
