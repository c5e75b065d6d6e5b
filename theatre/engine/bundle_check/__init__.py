"""The independent check of an evidence bundle (docs/contract/evidence.md).

Imports nothing that writes bundles: what it knows, it has from the published format. Here is what
a check says; `check_bundle`, which loads all that computes it, is in `bundle_check.check`.
"""

from theatre.engine.bundle_check.report import Check, CheckId, CheckReport, CheckStatus, Verdict

__all__ = ["Check", "CheckId", "CheckReport", "CheckStatus", "Verdict"]
