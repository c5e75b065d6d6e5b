"""Verifications of summaries: what is asked for, how far it is, what came out."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from backend.schemas.base import RequestDocument, ResponseDocument, WholeNumber
from backend.schemas.certificates import CertificateSummary
from backend.schemas.theatres import Outcome
from theatre.engine.canonical_json import JsonObject, canonical_bytes
from theatre.engine.state_machine import TheatreState
from theatre.verification.github.pull_requests import PullRequestSelection
from theatre.verification.judge.controls import committed_controls
from theatre.verification.judge.questions import MAX_REPEATS
from theatre.verification.judge.scorer import committed_judge
from theatre.verification.local_history import History, Selection
from theatre.verification.scoring_providers import (
    JUDGED_MEASURES,
    LEXICAL,
    ScoringProvider,
    judged_scoring,
)

MAX_CHANGES = 1000
_SEGMENT = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_WEB = "https://github.com/"
_REPOSITORY = r"^(https://github\.com/)?[A-Za-z0-9][A-Za-z0-9_-]{0,38}/[A-Za-z0-9_.-]{1,100}/?$"
# No options and none of git's own languages: names, and two of them with dots between.
_RANGE = r"^[A-Za-z0-9_][A-Za-z0-9_./~^-]{0,99}$"
_UPLOADED = "dataset:"
_UPLOAD = rf"^{_UPLOADED}[0-9a-f]{{64}}$"
_TEXT = r"^[^\x00-\x1f\x7f]+$"

Limit = Annotated[WholeNumber, Field(ge=1, le=MAX_CHANGES, description="the newest so many")]
Number = Annotated[float, Field(ge=0, le=1000)]


def _owner_and_name(text: str) -> str:
    """Return `owner/name`, also of the address that a browser or `git clone` has."""
    if text.startswith(_WEB):
        text = text.removeprefix(_WEB).removesuffix("/").removesuffix(".git")
    if text.partition("/")[2] in {"", ".", ".."} or text.endswith("/"):
        raise ValueError("expected owner/name, or https://github.com/owner/name")
    return text


def _begin(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time.min, tzinfo=UTC)


def _end(day: date | None) -> datetime | None:
    """Return the last moment of a day: the whole of it counts."""
    return None if day is None else datetime.combine(day, time.max, tzinfo=UTC)


class GitHubSource(RequestDocument):
    """Merged pull requests of a repository on GitHub."""

    kind: Literal["github"]
    repository: Annotated[
        str,
        Field(pattern=_REPOSITORY, description="`owner/name`, or `https://github.com/owner/name`"),
        AfterValidator(_owner_and_name),
    ]
    commit_range: Annotated[str, Field(pattern=_RANGE)] | None = Field(
        default=None, description="`A..B`, or one commit with all before it: merged by one of them"
    )
    since: date | None = Field(default=None, description="merged from this day on, in UTC")
    until: date | None = Field(default=None, description="merged to the end of this day, in UTC")
    labels: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=100, pattern=_TEXT)]],
        Field(default_factory=list, max_length=20, description="those that have all of them"),
    ]
    limit: Limit = 100

    @property
    def selection(self) -> PullRequestSelection:
        """Return which pull requests these are."""
        return PullRequestSelection(
            commit_range=self.commit_range,
            since=_begin(self.since),
            until=_end(self.until),
            labels=tuple(self.labels),
            limit=self.limit,
        )


class CloneSource(RequestDocument):
    """Commits of a local clone, below a folder that the operator lists."""

    kind: Literal["clone"]
    path: Annotated[
        str,
        Field(
            max_length=200,
            pattern=rf"^{_SEGMENT}(/{_SEGMENT}){{0,9}}$",
            description="below one of the operator's folders",
        ),
    ]
    history: Literal["plain", "first-parent", "merges"] = "plain"
    commit_range: Annotated[str, Field(pattern=_RANGE)] = "HEAD"
    since: date | None = Field(default=None, description="committed from this day on, in UTC")
    until: date | None = Field(default=None, description="committed to the end of it, in UTC")
    limit: Limit = 100

    @property
    def selection(self) -> Selection:
        """Return which commits these are."""
        return Selection(
            history=History(self.history),
            commit_range=self.commit_range,
            since=_begin(self.since),
            until=_end(self.until),
            limit=self.limit,
        )


class RecordsSource(RequestDocument):
    """Ground-truth records that were uploaded with `POST /datasets`."""

    kind: Literal["records"]
    dataset: Annotated[str, Field(pattern=_UPLOAD)]

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the upload."""
        return self.dataset.removeprefix(_UPLOADED)


class OracleChoice(RequestDocument):
    """The construct: one that the operator registered or, with an `endpoint`, a service."""

    construct_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")]
    endpoint: Annotated[str, Field(min_length=1, max_length=2048, pattern=_TEXT)] | None = Field(
        default=None, description="http(s), to where the outbound policy lets calls go"
    )
    version: Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}$")] | None = Field(
        default=None, description="its pin; without it, the one that it has or reports"
    )


class Weights(RequestDocument):
    """Weights of the criteria in the composite score; only their proportions count."""

    precision: Number = 1.0
    recall: Number = 1.0
    reply_accuracy: Number = 1.0

    @model_validator(mode="after")
    def _weighs_something(self) -> Self:
        if not self.precision + self.recall + self.reply_accuracy > 0:
            raise ValueError("expected weights of which one is above 0")
        return self

    def shares(self) -> dict[str, float]:
        """Return the weights by criterion; they add up to 1."""
        weights: dict[str, float] = self.model_dump()
        total = sum(weights.values())
        return {criterion: weight / total for criterion, weight in weights.items()}


class JudgeChoice(RequestDocument):
    """A language model that scores, of a provider that the operator has a key for.

    Its calls are paid from your budget.
    """

    provider: Literal["anthropic", "openai"]
    model: Annotated[str, Field(min_length=1, max_length=200, pattern=_TEXT)]
    temperature: Literal[0] | None = Field(default=0, description="null where the model takes none")
    repeats: Annotated[
        WholeNumber,
        Field(
            ge=1, le=MAX_REPEATS, description="how often each answer is judged; scores are means"
        ),
    ] = 1
    qualification: Annotated[str, Field(pattern=_UPLOAD)] | None = Field(
        default=None,
        description="the upload of what `echelon qualify` signed of this judge, with a key that "
        "signs certificates of this service",
    )

    @property
    def qualification_sha256(self) -> str | None:
        """Return the SHA-256 of the upload that qualifies it."""
        named = self.qualification
        return None if named is None else named.removeprefix(_UPLOADED)


class VerificationRequest(RequestDocument):
    """A verification that is to be run."""

    source: Annotated[GitHubSource | CloneSource | RecordsSource, Field(discriminator="kind")]
    oracle: OracleChoice = Field(alias="construct")
    weights: Annotated[Weights, Field(default_factory=Weights)]
    timeout_seconds: Annotated[WholeNumber, Field(ge=1, le=600, description="for one call")] = 30
    min_replays: Annotated[
        WholeNumber,
        Field(ge=1, le=MAX_CHANGES, description="with fewer scored changes, no certificate"),
    ] = 50
    judge: JudgeChoice | None = Field(
        default=None, description="who scores; without one, the words of the diff do"
    )

    @model_validator(mode="after")
    def _asks_for_enough(self) -> Self:
        source = self.source
        if not isinstance(source, RecordsSource) and source.limit < self.min_replays:
            raise ValueError("expected a limit of at least min_replays")
        return self

    @classmethod
    def read(cls, stored: JsonObject) -> Self:
        """Return a request as its row has it (`as_stored`)."""
        return cls.model_validate_json(canonical_bytes(stored))

    def as_stored(self) -> JsonObject:
        """Return the form that the row has until the job reads it."""
        return self.model_dump(mode="json", by_alias=True)

    @property
    def named_uploads(self) -> Mapping[str, str]:
        """Return what is expected of the user's uploads → the SHA-256 of the one."""
        named = {"records": self.source.sha256} if isinstance(self.source, RecordsSource) else {}
        if self.judge is not None and self.judge.qualification_sha256 is not None:
            named["a qualification"] = self.judge.qualification_sha256
        return named

    def scoring(self, changes: int) -> ScoringProvider:
        """Return how so many changes are scored."""
        if self.judge is None:
            return LEXICAL
        judge = committed_judge(
            self.judge.model,
            temperature=self.judge.temperature,
            repeats=self.judge.repeats,
            provider=self.judge.provider,
        )
        return judged_scoring(judge, controls=committed_controls(changes))


class ReplayProgress(ResponseDocument):
    """How many changes the construct has been shown."""

    completed: int = Field(ge=0)
    total: int = Field(ge=0, description="0 before the ground truth is read")
    failures: int = Field(ge=0)
    refused: int = Field(ge=0)


class VerificationStatus(ResponseDocument):
    """How far a verification is."""

    job_id: str = Field(description="also the id of the theatre, from `committed` on")
    phase: Literal[
        "queued", "ingesting", "committed", "replaying", "waiting_budget", "finished"
    ] = Field(
        description="`committed`: ground truth, construct and terms are fixed, the run is queued; "
        "`waiting_budget`: `POST /theatres/{job_id}/run` goes on once its judge can be paid"
    )
    records: int = Field(ge=0, description="changes of the ground truth that are read")
    replays: ReplayProgress
    min_replays: int
    waits_until: datetime | None = Field(description="while GitHub's limit is waited for")
    state: TheatreState | None = Field(description="of the theatre; null before there is one")
    outcome: Outcome | None = Field(description="null before `finished`")
    outcome_reason: str | None
    error: str | None
    commitment_hash: str | None
    certificate_id: str | None = Field(description="of the theatre's certificate")
    created_at: datetime
    updated_at: datetime


def _measures(criterion: str) -> str:
    return f"{LEXICAL.measures[criterion]}; with a judge: {JUDGED_MEASURES[criterion]}"


class VerifiedCertificate(CertificateSummary):
    """A certificate of a verification in the list of them."""

    precision: float | None = Field(description=_measures("precision"))
    recall: float | None = Field(description=_measures("recall"))
    reply_accuracy: float | None = Field(description=_measures("reply_accuracy"))


class VerificationPage(ResponseDocument):
    """Some certificates of verifications, the newest first."""

    certificates: list[VerifiedCertificate]
    total: int
    limit: int
    offset: int
    next_cursor: str | None
