"""The kinds of problems: slug, status and title of each, explained at `/problems/{slug}`.

Source: contract/service.md, "Conventions". Which error is of which kind: `error_kinds`.
"""

from __future__ import annotations

from typing import NamedTuple


class ProblemKind(NamedTuple):
    """One kind of problem."""

    slug: str
    status: int
    title: str
    explanation: str
    """What a caller can do. It is also the detail where the error's message is not for callers."""
    shows_message: bool = True
    """Whether the error's own message is for the caller."""


INTERNAL = ProblemKind(
    "internal-error",
    500,
    "The service failed",
    "The fault is the service's. Nothing of the request was kept. Its operator finds the request "
    "by its `instance`.",
    shows_message=False,
)
NOT_READY = ProblemKind(
    "not-ready",
    503,
    "The service is not ready",
    "The database or something else that is needed does not answer. Try again after `Retry-After`.",
    shows_message=False,
)
MALFORMED_JSON = ProblemKind(
    "malformed-json",
    400,
    "The body is not strict JSON",
    "Bodies are JSON in UTF-8 without duplicate keys, NaN, numbers beyond a double, integers "
    "beyond ±(2^53-1), lone surrogates or more than 64 levels of nesting.",
)
BAD_REQUEST = ProblemKind(
    "bad-request", 400, "The request cannot be read", "The request breaks a rule of HTTP."
)
UNAUTHENTICATED = ProblemKind(
    "unauthenticated",
    401,
    "Who asks is not known",
    "Send `Authorization: Bearer` with a token from `POST /auth/token` or a key. Tokens end after "
    "an hour, keys on their day.",
    shows_message=False,
)
OUT_OF_SCOPE = ProblemKind(
    "out-of-scope", 403, "The key may not do this", "Use a key that has the scope, or a token."
)
IDENTITY_SEPARATION = ProblemKind(
    "identity-separation",
    403,
    "Who scores must be somebody else",
    "The template commits that neither the theatre's owner nor an author of a construct scores.",
)
NOT_FOUND = ProblemKind(
    "not-found",
    404,
    "There is no such thing",
    "Nothing is here, or nothing that is yours.",
    shows_message=False,
)
METHOD_NOT_ALLOWED = ProblemKind(
    "method-not-allowed", 405, "The method is not allowed", "`Allow` lists the methods that are."
)
REQUEST_TIMEOUT = ProblemKind(
    "request-timeout", 408, "The body was not there in time", "Send the whole body sooner."
)
INVALID_TRANSITION = ProblemKind(
    "invalid-transition",
    409,
    "The theatre is in no state for this",
    "The detail names the current state and what it allows.",
)
STATE_CONFLICT = ProblemKind(
    "state-conflict",
    409,
    "Somebody else moved the theatre at the same time",
    "Read the theatre again.",
)
EXECUTION_PATH = ProblemKind(
    "execution-path-unavailable",
    409,
    "This execution path is not run here",
    "Markets and simulations can be committed and read, and nothing here runs them.",
)
EXPORT_REFUSED = ProblemKind(
    "export-refused", 409, "There is nothing to export", "The run left no records for training."
)
DUPLICATE_SUBMISSION = ProblemKind(
    "duplicate-submission",
    409,
    "These scores were submitted before",
    "One submission per identity.",
)
ALREADY_REGISTERED = ProblemKind(
    "already-registered",
    409,
    "The name or the address is taken",
    "Choose another, or log in. Upper and lower case do not differ.",
)
CLAIM_REJECTED = ProblemKind(
    "claim-rejected",
    409,
    "The operator has rejected this claim",
    "It may be made again 14 days later.",
)
IDEMPOTENCY_IN_PROGRESS = ProblemKind(
    "idempotency-in-progress",
    409,
    "The first request with this key is still at work",
    "Send the same request again after `Retry-After`.",
)
PRECONDITION_FAILED = ProblemKind(
    "precondition-failed",
    412,
    "The theatre is another than the one that was read",
    "Read it again: `If-Match` has to name the `ETag` of now.",
)
CONTENT_TOO_LARGE = ProblemKind(
    "content-too-large", 413, "The body is too large", "The detail names the limit."
)
UNSUPPORTED_MEDIA_TYPE = ProblemKind(
    "unsupported-media-type",
    415,
    "The body is of another kind",
    "The detail names the `Content-Type` that is read here.",
)
RANGE_NOT_SATISFIABLE = ProblemKind(
    "range-not-satisfiable",
    416,
    "The range begins behind the end",
    "`Content-Range` says how many bytes there are.",
)
VALIDATION_ERROR = ProblemKind(
    "validation-error",
    422,
    "The request does not have the shape",
    "`errors` lists everything that is wrong with it.",
    shows_message=False,
)
TEMPLATE_INVALID = ProblemKind(
    "template-invalid",
    422,
    "The template breaks rules",
    "`errors` lists all of them with pointers into the template.",
    shows_message=False,
)
DEBATE_INVALID = ProblemKind(
    "debate-invalid",
    422,
    "The debate breaks rules",
    "`errors` lists all of them with pointers into the artefact, or says which event does not fit.",
    shows_message=False,
)
DEBATE_EXISTS = ProblemKind(
    "debate-exists",
    409,
    "There is another artefact under these ids",
    "What is stored is never changed: use a new `run_id`, or append events to a run that is open.",
)
DEBATE_CLOSED = ProblemKind(
    "debate-closed",
    409,
    "The run of the debate is over",
    "Only a run that was submitted with `goes_on=true` takes events, until it is closed.",
)
IDEMPOTENCY_MISMATCH = ProblemKind(
    "idempotency-mismatch",
    422,
    "The idempotency key belongs to another request",
    "A key stands for one request, method, path and body, for 48 hours.",
)
RATE_LIMITED = ProblemKind(
    "rate-limited", 429, "Too many requests", "Try again after `Retry-After`."
)


def unprocessable(slug: str, title: str) -> ProblemKind:
    """Return a kind for something well-formed that cannot be accepted."""
    return ProblemKind(slug, 422, title, "The detail says what was expected.")
