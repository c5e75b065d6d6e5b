"""One bundle under the check: what was read of it first, and what it is recomputed with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

from theatre.engine.bundle_check.arithmetic import (
    NOTHING_CLOSED,
    Document,
    is_isolation,
    recorded_types,
    weakest_isolation,
)
from theatre.engine.bundle_check.audit_trail import AuditTrail, Times
from theatre.engine.bundle_check.folder import BundleFolder, Documents
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.report import Cause, Ledger, Nothing, at
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.coin import Coin
from theatre.engine.models import Computation, EpisodeRunner, InputSanitiser, Scorer
from theatre.engine.schema_registry import SchemaRegistry


class GroundTruth(NamedTuple):
    """The replay dataset (`total` lines) and the gold labels, or why these cannot be had.

    `answers` are the lines of a finished log by episode, None where a construct was to be called.
    """

    total: int
    gold: Mapping[str, JsonObject] | Cause
    answers: Mapping[str, JsonObject] | None = None


class Installed(NamedTuple):
    """What a check recomputes with, in addition to the arithmetic of scoring; each by name."""

    scorers: Mapping[str, Scorer]
    computations: Mapping[str, Computation]
    runners: Mapping[str, EpisodeRunner]
    sanitiser: InputSanitiser | None
    registry: SchemaRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A bundle, read: every later check takes it from here. A gap is None, NOTHING or a Cause.

    `ledger` takes what the checks find; `progress` is called with numbers of episodes, and may
    raise to stop the check.
    """

    folder: BundleFolder
    documents: Documents
    plan: CommittedPlan | None
    theatre_id: str | Nothing
    coin: Coin | Cause
    trail: AuditTrail
    times: Times
    installed: Installed
    ledger: Ledger
    progress: Callable[[int], None]

    @property
    def registry(self) -> SchemaRegistry:
        """Return the schemas."""
        return self.installed.registry

    @property
    def runner(self) -> EpisodeRunner | None:
        """Return what plays the committed episodes; None where they are single calls."""
        return None if self.plan is None else self.installed.runners.get(self.plan.episode_runner)

    @property
    def isolation_by_construct(self) -> JsonObject:
        """Return construct → what was closed to it; nothing where that is not said in its form."""
        found: JsonObject = {}
        # Another program that asks the construct has the answers, whatever a trail says.
        is_open = self.plan is not None and recorded_types(self.plan.document)
        for hop in () if self.plan is None else self.plan.hops:
            one = self.trail.detail("activated", "isolation", hop.construct_id)
            one = NOTHING_CLOSED if is_open else one
            found[hop.construct_id] = {**(one if is_isolation(one) else NOTHING_CLOSED)}
        return found

    @property
    def isolation(self) -> JsonObject:
        """Return what was closed to every construct of an episode."""
        each = [cast("Document", one) for one in self.isolation_by_construct.values()]
        return weakest_isolation(each or [NOTHING_CLOSED])

    @property
    def sealed_at(self) -> JsonValue | Nothing:
        """Return when the bundle was sealed, by its trail."""
        return at(self.trail.entry("sealed"), "at")
