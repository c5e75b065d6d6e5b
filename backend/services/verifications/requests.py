"""Requests for verifications, as their row stores them and their job reads them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.verification.github.pull_requests import PullRequestSelection
from theatre.verification.judge.controls import committed_controls
from theatre.verification.judge.scorer import committed_judge
from theatre.verification.local_history import History, Selection
from theatre.verification.scoring_providers import LEXICAL, ScoringProvider, judged_scoring

LATEST = time(23, 59, 59, 999_999)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubRequest:
    """Merged pull requests of `repository`, `owner/name`."""

    repository: str
    selection: PullRequestSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneRequest:
    """Commits of a clone; `path` begins in one of the operator's folders."""

    path: str
    selection: Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadRequest:
    """Records that the user uploaded, all of them."""

    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRequest:
    """A construct: a registered one, or a service where there is an `endpoint`.

    `version` is its pin; None stands for the one that it has or reports.
    """

    construct_id: str
    endpoint: str | None
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """A model of a provider that the operator has, and what qualifies it: an upload's SHA-256."""

    provider: str
    model: str
    temperature: int | None
    repeats: int
    qualification: str | None

    def scoring(self, changes: int) -> ScoringProvider:
        """Return the scoring of so many changes."""
        judge = committed_judge(
            self.model, temperature=self.temperature, repeats=self.repeats, provider=self.provider
        )
        return judged_scoring(judge, controls=committed_controls(changes))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationRequest:
    """Ground truth, construct, and the terms that are committed; weights add up to 1.

    Without a `judge` the words of the diff score.
    """

    source: GitHubRequest | CloneRequest | UploadRequest
    oracle: OracleRequest
    weights: Mapping[str, float]
    timeout_seconds: int
    min_replays: int
    judge: JudgeRequest | None

    @classmethod
    def of(cls, document: JsonObject) -> "VerificationRequest":
        """Return what a valid request asks for (`backend.schemas.verifications`)."""
        construct = cast("dict[str, str | None]", document["construct"])
        weights = cast("dict[str, float]", document["weights"])
        total = sum(weights.values())
        return cls(
            source=_source(cast("JsonObject", document["source"])),
            oracle=OracleRequest(
                construct_id=str(construct["construct_id"]),
                endpoint=construct["endpoint"],
                version=construct["version"],
            ),
            weights={criterion: weight / total for criterion, weight in weights.items()},
            timeout_seconds=cast("int", document["timeout_seconds"]),
            min_replays=cast("int", document["min_replays"]),
            judge=_judge(document.get("judge")),
        )

    @property
    def named_uploads(self) -> Mapping[str, str]:
        """Return what is expected of the user's uploads → the SHA-256 of the one."""
        named = {"records": self.source.sha256} if isinstance(self.source, UploadRequest) else {}
        if self.judge is not None and self.judge.qualification is not None:
            named["a qualification"] = self.judge.qualification
        return named

    def scoring(self, changes: int) -> ScoringProvider:
        """Return how so many changes are scored."""
        return LEXICAL if self.judge is None else self.judge.scoring(changes)


def _judge(document: JsonValue) -> JudgeRequest | None:
    # A request that was stored by a release before has no such member.
    if not isinstance(document, dict):
        return None
    named = document["qualification"]
    return JudgeRequest(
        provider=cast("str", document["provider"]),
        model=cast("str", document["model"]),
        temperature=cast("int | None", document["temperature"]),
        repeats=cast("int", document["repeats"]),
        qualification=None if named is None else str(named).removeprefix("dataset:"),
    )


def _source(document: JsonObject) -> GitHubRequest | CloneRequest | UploadRequest:
    if document["kind"] == "records":
        return UploadRequest(sha256=str(document["dataset"]).removeprefix("dataset:"))
    since, until = _day(document["since"], time.min), _day(document["until"], LATEST)
    limit = cast("int", document["limit"])
    if document["kind"] == "github":
        labels = tuple(cast("list[str]", document["labels"]))
        return GitHubRequest(
            repository=str(document["repository"]),
            selection=PullRequestSelection(
                commit_range=cast("str | None", document["commit_range"]),
                since=since,
                until=until,
                labels=labels,
                limit=limit,
            ),
        )
    return CloneRequest(
        path=str(document["path"]),
        selection=Selection(
            history=History(str(document["history"])),
            commit_range=str(document["commit_range"]),
            since=since,
            until=until,
            limit=limit,
        ),
    )


def _day(text: object, moment: time) -> datetime | None:
    """Return a moment of a day; the whole day of `until` counts."""
    if text is None:
        return None
    return datetime.combine(date.fromisoformat(str(text)), moment, tzinfo=UTC)
