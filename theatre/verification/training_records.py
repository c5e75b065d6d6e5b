"""The members of training records that a verification adds to those of the engine."""

from __future__ import annotations

from theatre.engine.canonical_json import JsonObject
from theatre.engine.rlmf_export import SealedBundle, measured_calibration
from theatre.verification.certificate import certificate_document
from theatre.verification.errors import NoVerificationError, TooFewReplaysError

_LIFTED = ("brier", "sample_size", "agent_accuracy")


def training_calibration(sealed: SealedBundle) -> JsonObject | None:
    """Return `brier`, `sample_size` and `agent_accuracy` as the verification certificate has them.

    So for a run that earned one; for every other what the engine measured, whatever its template
    is named.
    """
    measured = measured_calibration(sealed)
    try:
        certificate = certificate_document(sealed)
    except (NoVerificationError, TooFewReplaysError):
        return measured
    lifted = {name: certificate[name] for name in _LIFTED if certificate[name] is not None}
    return {**(measured or {}), **lifted}
