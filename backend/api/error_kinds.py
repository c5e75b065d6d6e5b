"""The one table from error to kind of problem (docs/contract/service.md §1)."""

from __future__ import annotations

from backend import errors as service
from backend.api import problem_kinds as kinds
from backend.api.problem_kinds import unprocessable
from theatre.construct_kit import errors as kit
from theatre.debate import errors as debate
from theatre.engine import errors as engine
from theatre.engine.bundle_check.json_values import DefectError
from theatre.oracles import errors as oracles
from theatre.scorers import ScorerRegistrationError
from theatre.scorers.computations import ComputationRegistrationError
from theatre.scorers.episode_runners import RunnerRegistrationError

BY_ERROR: dict[type[Exception], kinds.ProblemKind] = {
    engine.TheatreError: kinds.INTERNAL,
    engine.CanonicalisationError: unprocessable("not-canonicalisable", "Not canonicalisable"),
    engine.ParseError: kinds.MALFORMED_JSON,
    engine.ClockError: kinds.VALIDATION_ERROR,
    engine.ResourceMissingError: kinds.INTERNAL,
    engine.ChainBrokenError: kinds.INTERNAL,
    engine.InvalidTemplateError: kinds.TEMPLATE_INVALID,
    engine.DatasetError: unprocessable("dataset-unavailable", "Dataset not usable"),
    engine.DatasetMismatchError: unprocessable("dataset-mismatch", "Dataset changed"),
    engine.InvalidTransitionError: kinds.INVALID_TRANSITION,
    engine.StateConflictError: kinds.STATE_CONFLICT,
    engine.RunStoppedError: kinds.INTERNAL,
    engine.IsolationLostError: kinds.INTERNAL,
    engine.CommitmentError: unprocessable("commitment-refused", "Commitment not possible"),
    engine.CoinError: kinds.INTERNAL,
    engine.PinMismatchError: unprocessable("pin-mismatch", "Version does not match the pin"),
    engine.RehearsalAdapterError: unprocessable("mock-adapter-refused", "Mock adapter not allowed"),
    engine.UnaskedError: kinds.INTERNAL,
    engine.UnplayableError: kinds.INTERNAL,
    engine.UnknownScorerError: unprocessable("scorer-unknown", "Scorer not installed"),
    engine.NotReproducibleError: kinds.INTERNAL,
    engine.ProgrammeError: unprocessable("programme-refused", "Programme not executable"),
    engine.ExecutionPathUnavailableError: kinds.EXECUTION_PATH,
    engine.JournalError: kinds.INTERNAL,
    engine.JournalChangedError: kinds.INTERNAL,
    engine.BundleError: kinds.INTERNAL,
    engine.AlreadySealedError: kinds.INTERNAL,
    engine.CertificateError: kinds.INTERNAL,
    engine.HumanScoreRefusedError: unprocessable("human-score-refused", "Scores not accepted"),
    engine.RlmfExportError: kinds.EXPORT_REFUSED,
    engine.NotFoundError: kinds.NOT_FOUND,
    engine.TierRecordError: kinds.INTERNAL,
    engine.ExpertiseError: kinds.INTERNAL,
    DefectError: kinds.INTERNAL,
    ScorerRegistrationError: kinds.INTERNAL,
    ComputationRegistrationError: kinds.INTERNAL,
    RunnerRegistrationError: kinds.INTERNAL,
    oracles.ConstructRegistryError: kinds.INTERNAL,
    oracles.ConstructFilesError: kinds.INTERNAL,
    oracles.DatasetCopyError: kinds.INTERNAL,
    oracles.UnknownConstructError: unprocessable("construct-unknown", "Unknown construct"),
    oracles.ConstructUnreachableError: unprocessable(
        "construct-unreachable", "Construct not reachable"
    ),
    oracles.IsolationUnavailableError: unprocessable(
        "isolation-unavailable", "Isolation not available"
    ),
    oracles.AdapterClosedError: kinds.INTERNAL,
    oracles.OutboundRefusedError: unprocessable("endpoint-not-allowed", "Endpoint not allowed"),
    oracles.AddressNotAllowedError: unprocessable("address-not-allowed", "Address not allowed"),
    oracles.OutboundPolicyError: kinds.INTERNAL,
    oracles.RequestHeadersError: kinds.INTERNAL,
    oracles.ConstructTransportError: unprocessable(
        "construct-transport", "Wrong transport for this construct"
    ),
    oracles.SanitisePolicyError: unprocessable(
        "sanitise-policy-invalid", "Sanitising policy not supported"
    ),
    kit.CallableNotFoundError: kinds.INTERNAL,
    kit.CallableBrokenError: kinds.INTERNAL,
    kit.ConstructVersionError: kinds.INTERNAL,
    kit.QuestionError: kinds.INTERNAL,
    kit.AddressError: kinds.INTERNAL,
    service.BackendError: kinds.INTERNAL,
    service.SettingsError: kinds.INTERNAL,
    service.EmbeddedServerError: kinds.INTERNAL,
    service.DatabaseRoleError: kinds.INTERNAL,
    service.MigrationError: kinds.INTERNAL,
    service.SigningKeysError: kinds.INTERNAL,
    service.NotReadyError: kinds.NOT_READY,
    service.RequestInvalidError: kinds.VALIDATION_ERROR,
    service.MediaTypeError: kinds.UNSUPPORTED_MEDIA_TYPE,
    service.BodyTooLargeError: kinds.CONTENT_TOO_LARGE,
    service.BodyTimeoutError: kinds.REQUEST_TIMEOUT,
    service.PreconditionFailedError: kinds.PRECONDITION_FAILED,
    service.UnauthenticatedError: kinds.UNAUTHENTICATED,
    service.OutOfScopeError: kinds.OUT_OF_SCOPE,
    service.AlreadyRegisteredError: kinds.ALREADY_REGISTERED,
    service.ClaimRejectedError: kinds.CLAIM_REJECTED,
    service.DecisionError: kinds.INTERNAL,
    service.IdempotencyMismatchError: kinds.IDEMPOTENCY_MISMATCH,
    service.IdempotencyInProgressError: kinds.IDEMPOTENCY_IN_PROGRESS,
    service.EvidenceStoreError: kinds.NOT_READY,
    service.EvidenceDamagedError: kinds.INTERNAL,
    service.BackupError: kinds.INTERNAL,
    service.DebateRefusedError: kinds.DEBATE_INVALID,
    service.DebateExistsError: kinds.DEBATE_EXISTS,
    service.DebateClosedError: kinds.DEBATE_CLOSED,
    debate.DebateError: kinds.INTERNAL,
    debate.InvalidDebateError: kinds.INTERNAL,
    debate.HistoryRewrittenError: kinds.INTERNAL,
    debate.DebateLogError: kinds.INTERNAL,
    debate.DebateRunError: kinds.INTERNAL,
    debate.SweepError: kinds.INTERNAL,
    debate.JudgementRecordError: kinds.INTERNAL,
    service.RateLimitedError: kinds.RATE_LIMITED,
}
"""Every class of error of `theatre` and `backend`: a test fails for one that is missing."""

BY_STATUS = {
    kind.status: kind
    for kind in (
        kinds.BAD_REQUEST,
        kinds.UNAUTHENTICATED,
        kinds.NOT_FOUND,
        kinds.METHOD_NOT_ALLOWED,
        kinds.REQUEST_TIMEOUT,
        kinds.CONTENT_TOO_LARGE,
        kinds.UNSUPPORTED_MEDIA_TYPE,
        kinds.RANGE_NOT_SATISFIABLE,
        kinds.VALIDATION_ERROR,
        kinds.RATE_LIMITED,
        kinds.INTERNAL,
        kinds.NOT_READY,
    )
}
"""What the framework itself answers, by status."""

BY_SLUG = {
    kind.slug: kind
    for kind in (
        *BY_ERROR.values(),
        *BY_STATUS.values(),
        kinds.IDENTITY_SEPARATION,
        kinds.DUPLICATE_SUBMISSION,
    )
}


def kind_of(error: Exception) -> kinds.ProblemKind:
    """Return the kind of an error: its class's, or that of the nearest class above."""
    return next((BY_ERROR[one] for one in type(error).__mro__ if one in BY_ERROR), kinds.INTERNAL)
