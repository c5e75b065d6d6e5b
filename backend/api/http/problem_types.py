"""The types of problems: slug, status and title of each, explained at `/problems/{slug}`.

Source: docs/contract/service.md §1. Which error is of which kind: `error_kinds`.
"""

from typing import NamedTuple

from backend import errors as service
from theatre.construct_kit import envelopes as kit
from theatre.engine import errors as engine
from theatre.oracles import errors as oracles
from theatre.transparency import errors as transparency


class ProblemKind(NamedTuple):
    """One kind of problem."""

    slug: str
    status: int
    title: str
    explanation: str
    """What a client can do. It is also the detail where the error's message is not for clients."""
    shows_message: bool = True
    """Whether the error's own message is shown to the client."""


INTERNAL = ProblemKind(
    "internal-error",
    500,
    "Internal error",
    "The service failed, and nothing of the request was stored. The operator can find the request "
    "by its `instance`.",
    shows_message=False,
)
NOT_READY = ProblemKind(
    "not-ready",
    503,
    "Service unavailable",
    "The database or another needed part does not answer. Retry after `Retry-After`.",
    shows_message=False,
)
MALFORMED_JSON = ProblemKind(
    "malformed-json",
    400,
    "Malformed JSON",
    "Bodies must be JSON in UTF-8 without duplicate keys, NaN, numbers beyond a double, integers "
    "beyond ±(2^53-1), lone surrogates or more than 64 levels of nesting.",
)
BAD_REQUEST = ProblemKind("bad-request", 400, "Bad request", "The request breaks a rule of HTTP.")
UNAUTHENTICATED = ProblemKind(
    "unauthenticated",
    401,
    "Authentication required",
    "Send `Authorization: Bearer` with a token from `POST /auth/token` or a key. Tokens expire "
    "after an hour, keys on their date.",
    shows_message=False,
)
OUT_OF_SCOPE = ProblemKind(
    "out-of-scope", 403, "Insufficient scope", "Use a key that has the scope, or a token."
)
IDENTITY_SEPARATION = ProblemKind(
    "identity-separation",
    403,
    "Scorer not allowed",
    "The template commits that neither the theatre's owner nor an author of a construct may score.",
)
FORM_REFUSED = ProblemKind(
    "form-refused",
    403,
    "Form not accepted",
    "A form is accepted from the page of this service that showed it, in the same browser and "
    "within the hour. Open the page again and send it from there.",
)
NOT_FOUND = ProblemKind(
    "not-found", 404, "Not found", "It does not exist, or it is not yours.", shows_message=False
)
METHOD_NOT_ALLOWED = ProblemKind(
    "method-not-allowed", 405, "Method not allowed", "`Allow` lists the allowed methods."
)
REQUEST_TIMEOUT = ProblemKind(
    "request-timeout", 408, "Request timeout", "The whole body must arrive in time."
)
INVALID_TRANSITION = ProblemKind(
    "invalid-transition",
    409,
    "Not allowed in this state",
    "The detail names the current state and what it allows.",
)
STATE_CONFLICT = ProblemKind(
    "state-conflict",
    409,
    "Conflicting change",
    "The theatre was changed at the same time. Read it again.",
)
EXECUTION_PATH = ProblemKind(
    "execution-path-unavailable",
    409,
    "Execution path not available",
    "Markets and simulations can be committed and read, but this service cannot run them.",
)
EXPORT_REFUSED = ProblemKind(
    "export-refused", 409, "Nothing to export", "The run left no training records."
)
DUPLICATE_SUBMISSION = ProblemKind(
    "duplicate-submission", 409, "Scores already submitted", "Each person may submit once."
)
ALREADY_REGISTERED = ProblemKind(
    "already-registered",
    409,
    "Already registered",
    "The name or the address is taken: choose another, or log in. Case is ignored.",
)
REGISTRATION_CLOSED = ProblemKind(
    "registration-closed",
    403,
    "Registration closed",
    "The operator of this service makes its users: ask the operator.",
)
INVITE_INVALID = ProblemKind(
    "invite-invalid",
    403,
    "Invite not valid",
    "This service registers users who have an invite. Each is good once and until its last day: "
    "ask the operator for a new one, and send it as `invite`.",
)
WRONG_PASSWORD = ProblemKind(
    "wrong-password",
    403,
    "Wrong password",
    "To change a password, send the one that is in use as `old_password`.",
)
CLAIM_REJECTED = ProblemKind(
    "claim-rejected",
    409,
    "Claim rejected",
    "The operator has rejected this claim. It may be made again 14 days later.",
)
IDEMPOTENCY_IN_PROGRESS = ProblemKind(
    "idempotency-in-progress",
    409,
    "Request in progress",
    "The first request with this key has not ended. Send the same request again after "
    "`Retry-After`.",
)
PRECONDITION_FAILED = ProblemKind(
    "precondition-failed",
    412,
    "Precondition failed",
    "It changed since it was read. Read it again: `If-Match` must name the current `ETag`.",
)
CONTENT_TOO_LARGE = ProblemKind(
    "content-too-large", 413, "Body too large", "The detail names the limit."
)
UNSUPPORTED_MEDIA_TYPE = ProblemKind(
    "unsupported-media-type",
    415,
    "Unsupported media type",
    "The detail names the `Content-Type` that is accepted.",
)
RANGE_NOT_SATISFIABLE = ProblemKind(
    "range-not-satisfiable",
    416,
    "Range not satisfiable",
    "The range begins after the end. `Content-Range` gives the number of bytes.",
)
VALIDATION_ERROR = ProblemKind(
    "validation-error",
    422,
    "Invalid request",
    "`errors` lists everything that is wrong with the request.",
    shows_message=False,
)
TEMPLATE_INVALID = ProblemKind(
    "template-invalid",
    422,
    "Invalid template",
    "`errors` lists every broken rule with a pointer into the template.",
    shows_message=False,
)
DEBATE_INVALID = ProblemKind(
    "debate-invalid",
    422,
    "Invalid debate",
    "`errors` lists every broken rule with a pointer into the artefact, or the event that does not "
    "fit.",
    shows_message=False,
)
DEBATE_EXISTS = ProblemKind(
    "debate-exists",
    409,
    "Debate run already exists",
    "A stored artefact is never changed: use a new `run_id`, or append events to an open run.",
)
DEBATE_CLOSED = ProblemKind(
    "debate-closed",
    409,
    "Debate run closed",
    "Only a run that was submitted with `goes_on=true` accepts events, until it is closed.",
)
IDEMPOTENCY_MISMATCH = ProblemKind(
    "idempotency-mismatch",
    422,
    "Idempotency key already used",
    "The key was used for another request. For 48 hours it stands for one method, path and body.",
)
RATE_LIMITED = ProblemKind("rate-limited", 429, "Too many requests", "Retry after `Retry-After`.")


def unprocessable(slug: str, title: str) -> ProblemKind:
    """Return a kind for something well-formed that cannot be accepted."""
    return ProblemKind(slug, 422, title, "The detail says what was expected.")


# The one table from error to kind of problem (docs/contract/service.md §1).


_REFUSED = (
    UNSUPPORTED_MEDIA_TYPE,
    CONTENT_TOO_LARGE,
    REQUEST_TIMEOUT,
    PRECONDITION_FAILED,
    OUT_OF_SCOPE,
    FORM_REFUSED,
    ALREADY_REGISTERED,
    REGISTRATION_CLOSED,
    INVITE_INVALID,
    WRONG_PASSWORD,
    CLAIM_REJECTED,
    IDEMPOTENCY_MISMATCH,
    IDEMPOTENCY_IN_PROGRESS,
    DEBATE_EXISTS,
    DEBATE_CLOSED,
    IDENTITY_SEPARATION,
    DUPLICATE_SUBMISSION,
)
"""What a RequestRefusedError, or refused scores, may be of."""
BY_ERROR: dict[type[Exception], ProblemKind] = {
    engine.CanonicalisationError: unprocessable("not-canonicalisable", "Not canonicalisable"),
    engine.ParseError: MALFORMED_JSON,
    engine.ClockError: VALIDATION_ERROR,
    engine.InvalidTemplateError: TEMPLATE_INVALID,
    engine.DatasetError: unprocessable("dataset-unavailable", "Dataset not usable"),
    engine.DatasetMismatchError: unprocessable("dataset-mismatch", "Dataset changed"),
    # Not of the service, which records for no other program.
    oracles.HarnessChangedError: unprocessable("dataset-mismatch", "Dataset changed"),
    engine.InvalidTransitionError: INVALID_TRANSITION,
    engine.StateConflictError: STATE_CONFLICT,
    engine.CommitmentError: unprocessable("commitment-refused", "Commitment not possible"),
    engine.PinMismatchError: unprocessable("pin-mismatch", "Version does not match the pin"),
    engine.RehearsalAdapterError: unprocessable("mock-adapter-refused", "Mock adapter not allowed"),
    engine.UnknownScorerError: unprocessable("scorer-unknown", "Scorer not installed"),
    engine.NotReproducibleError: INTERNAL,
    engine.ProgrammeError: unprocessable("programme-refused", "Programme not executable"),
    engine.ExecutionPathUnavailableError: EXECUTION_PATH,
    engine.HumanScoreRefusedError: unprocessable("human-score-refused", "Scores not accepted"),
    engine.RlmfExportError: EXPORT_REFUSED,
    engine.NotComparableError: unprocessable("not-comparable", "Not comparable"),
    engine.NotFoundError: NOT_FOUND,
    oracles.UnknownConstructError: unprocessable("construct-unknown", "Unknown construct"),
    oracles.ConstructUnreachableError: unprocessable(
        "construct-unreachable", "Construct not reachable"
    ),
    oracles.IsolationUnavailableError: unprocessable(
        "isolation-unavailable", "Isolation not available"
    ),
    oracles.OutboundRefusedError: unprocessable("endpoint-not-allowed", "Endpoint not allowed"),
    oracles.AddressNotAllowedError: unprocessable("address-not-allowed", "Address not allowed"),
    oracles.ConstructTransportError: unprocessable(
        "construct-transport", "Wrong transport for this construct"
    ),
    oracles.SanitisePolicyError: unprocessable(
        "sanitise-policy-invalid", "Sanitising policy not supported"
    ),
    kit.CallableNotFoundError: INTERNAL,
    transparency.AuditError: unprocessable("audit-refused", "Audit not accepted"),
    service.NotReadyError: NOT_READY,
    service.RequestInvalidError: VALIDATION_ERROR,
    service.UnauthenticatedError: UNAUTHENTICATED,
    service.EvidenceStoreError: NOT_READY,
    service.DebateRefusedError: DEBATE_INVALID,
    service.RateLimitedError: RATE_LIMITED,
}
"""What a client can act on. Every other error is internal, and its message is not shown."""

BY_STATUS = {
    kind.status: kind
    for kind in (
        BAD_REQUEST,
        UNAUTHENTICATED,
        NOT_FOUND,
        METHOD_NOT_ALLOWED,
        REQUEST_TIMEOUT,
        CONTENT_TOO_LARGE,
        UNSUPPORTED_MEDIA_TYPE,
        RANGE_NOT_SATISFIABLE,
        VALIDATION_ERROR,
        RATE_LIMITED,
        INTERNAL,
        NOT_READY,
    )
}
"""What the framework itself answers, by status."""

BY_SLUG = {kind.slug: kind for kind in (*BY_ERROR.values(), *BY_STATUS.values(), *_REFUSED)}


def kind_of(error: Exception) -> ProblemKind:
    """Return the kind of an error: its class's, or that of the nearest class above."""
    if isinstance(error, service.RequestRefusedError):
        return BY_SLUG[error.code]
    return next((BY_ERROR[one] for one in type(error).__mro__ if one in BY_ERROR), INTERNAL)
