"""Theatres: what is sent to make, commit and run one, and how one looks.

And what they are made of: templates, uploaded ground truth.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from backend.schemas.base import RequestDocument, ResponseDocument
from theatre.engine.state_machine import TheatreState

RunStatus = Literal[
    "queued", "running", "waiting_hitl", "waiting_budget", "succeeded", "failed", "cancelled"
]
Outcome = Literal["certified", "no_certificate", "failed", "void"]


class TheatreRequest(RequestDocument):
    """A theatre to create."""

    template_json: dict[str, Any] = Field(description="a template, as docs/templates.md has it")


class CommitRequest(RequestDocument):
    """The expected result of a commitment."""

    expected_commitment_hash: (
        Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="the hash that it must have")]
        | None
    ) = None


class Commitment(ResponseDocument):
    """A commitment receipt: everything that the hash is of, and when it was made."""

    theatre_id: str
    commitment_hash: str
    coin_sha256: str = Field(description="of the coin, which the bundle of the run reveals")
    reproduces: None = Field(description="in a receipt of this service always null")
    template_snapshot: dict[str, Any] | None = Field(
        description="null for all but the owner with `disclosure: hashes`"
    )
    hidden: dict[str, str] = Field(
        default={}, description="the members that are null, and why; absent where none is"
    )
    version_pins: dict[str, Any]
    dataset_hashes: dict[str, str]
    scorer_pins: dict[str, Any]
    scorer_kinds: dict[str, Literal["exact", "textual", "judged"]] = Field(
        description="what the scores of each scorer rest on"
    )
    escrowed_capital: float | None
    environment: dict[str, str] | None = Field(
        description="what a construct that runs here could import: its hash, interpreter, platform"
    )
    isolation: dict[str, bool | str] | None = Field(
        description="what the constructs that run here were kept from, as tried at the commitment"
    )
    canonicalisation: Literal["RFC8785"]
    committed_at: datetime


class HashedCommitment(ResponseDocument):
    """What a commitment hash is of, in its canonical form."""

    template: dict[str, Any]
    version_pins: dict[str, Any]
    dataset_hashes: dict[str, str]


class RunRequest(RequestDocument):
    """How to run a theatre."""

    is_certificate_run: bool = Field(
        default=True, description="false is a rehearsal: the same steps, no certificate"
    )
    ground_truth_path: (
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=1000,
                pattern=r"^[^\x00]+$",
                description="of a rehearsal: what it runs on instead of the committed dataset, "
                "a path inside a dataset root or `dataset:` and the SHA-256 of an upload",
            ),
        ]
        | None
    ) = None

    answers_path: (
        Annotated[
            str,
            Field(
                pattern=r"^dataset:[0-9a-f]{64}$",
                description="of a rehearsal: what answers instead of every construct, `dataset:` "
                "and the SHA-256 of an upload; a line has an `episode_id` and members of an answer "
                "envelope, and a `construct_id` where it is the answer of that construct alone",
            ),
        ]
        | None
    ) = None

    @field_validator("ground_truth_path", "answers_path")
    @classmethod
    def _only_rehearsed(cls, path: str | None, info: ValidationInfo) -> str | None:
        # Where `is_certificate_run` itself is refused, it is not in `info.data`.
        if path is not None and info.data.get("is_certificate_run", True):
            raise ValueError(
                "expected none for a run that may certify: it runs on what it committed"
            )
        return path


class RunDocument(ResponseDocument):
    """How far a run is; apart from the state of the theatre."""

    status: RunStatus
    progress: int = Field(ge=0, description="episodes that are recorded")
    total: int = Field(ge=0, description="episodes of the dataset; 0 before the run has begun")
    failures: int = Field(ge=0)
    refused: int = Field(ge=0)
    started_at: datetime | None
    heartbeat_at: datetime | None
    eta_seconds: float | None = Field(description="of the calls, at the pace so far")


class TheatreDocument(ResponseDocument):
    """One theatre."""

    id: str
    template_id: str
    template_sha256: str
    state: TheatreState
    construct_id: str | None
    commitment_hash: str | None
    committed_at: datetime | None
    is_certificate_run: bool | None
    progress: int
    total_episodes: int
    failure_count: int
    error: str | None
    outcome: Outcome | None = Field(description="null before RESOLVED")
    outcome_reason: str | None
    resolved_at: datetime | None
    certificate_id: str | None
    run: RunDocument | None = Field(description="null before it was asked to run")
    pending_steps: list[str] = Field(description="the steps that wait for people")
    created_at: datetime
    updated_at: datetime


class FailureExample(ResponseDocument):
    """One episode that failed, and what was said of it."""

    episode_id: str
    error_detail: str
    stderr: str | None = Field(description="the last line that the program wrote there")


class FailureReason(ResponseDocument):
    """Why episodes failed or were refused."""

    code: str
    count: int
    example: FailureExample | None = Field(description="null where nothing was recorded of it")


class Ending(ResponseDocument):
    """Why a theatre has no certificate. What it recorded is kept: `/episodes`, `/audit-events`."""

    statuses: dict[str, int] = Field(description="how many recorded episodes ended with each")
    reasons: list[FailureReason] = Field(description="the most frequent first, at most three")


class Usage(ResponseDocument):
    """What the recorded calls of a run took; once certified, as its certificate has it."""

    calls: int = Field(description="attempts, those that failed too")
    calls_counted: int = Field(description="those whose tokens the provider counted")
    input_tokens: int
    output_tokens: int
    cost_usd: float | None = Field(description="at the committed prices; null without any")
    latency_ms: dict[str, int] = Field(description="nearest ranks: p50, p95, p99")


class WholeTheatre(TheatreDocument):
    """One theatre, with what it is made of and how it ended."""

    parameters: dict[str, Any] = Field(description="its template")
    ending: Ending | None = Field(
        description="null before RESOLVED, with a certificate, and where no run began"
    )
    usage: Usage | None = Field(
        description="of models and tools that know no envelope; null before the first call"
    )


class TheatrePage(ResponseDocument):
    """Some of a user's theatres, the newest first."""

    theatres: list[TheatreDocument]
    total: int
    limit: int
    offset: int
    next_cursor: str | None


class WarningDocument(ResponseDocument):
    """Something doubtful in a template that is no error."""

    pointer: str
    rule: str
    detail: str


class CreatedTheatre(TheatreDocument):
    """A new theatre, and what is doubtful in its template."""

    warnings: list[WarningDocument]


class DryRun(ResponseDocument):
    """A valid template, of which nothing was stored."""

    template_id: str
    commitment_hash: str = Field(description="what a commitment of it will come to")
    content_hash: str = Field(description="what an operator lists in `[accepted_templates]`")
    warnings: list[WarningDocument]


# Templates.


class TemplateDocument(ResponseDocument):
    """A template in a list. One id may stand for several; `sha256` for exactly one."""

    id: str
    sha256: str
    template_family: str
    execution_path: str | None
    display_name: str
    description: str | None
    schema_version: str
    created_at: datetime
    content_hash: str = Field(description="of all of it but version pins and data hashes")


class ListedTemplate(TemplateDocument):
    """A committed template, and whether it is accepted now."""

    accepted: bool = Field(description="by the operator: runs on it count")


class WholeTemplateDocument(TemplateDocument):
    """A template with its body and the schema that it keeps to."""

    template_json: dict[str, Any]
    json_schema: dict[str, Any] = Field(description="the frozen schema of its `schema_version`")


class AvailableTemplateDocument(ResponseDocument):
    """A template that ships with this release, or that the operator accepts."""

    name: str
    content_hash: str = Field(description="of all of it but version pins and data hashes")
    sha256: str | None = Field(description="of the canonical template, where it ships")
    template_family: str | None
    display_name: str | None
    ships: bool
    accepted: bool


class TemplatePage(ResponseDocument):
    """Some committed templates, the newest first, and all that ship or are accepted."""

    available: list[AvailableTemplateDocument]

    templates: list[ListedTemplate]
    total: int
    limit: int
    offset: int
    next_cursor: str | None


# Uploaded ground truth.


class DatasetDocument(ResponseDocument):
    """An upload of a user."""

    sha256: str
    name: str = Field(description="what a template writes for its path")
    size_bytes: int
    lines_total: int
    created_at: datetime
