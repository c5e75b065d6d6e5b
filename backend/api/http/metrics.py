"""What Prometheus reads. No label takes a value from a request's own text, nor a construct's id."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import AsyncAdaptedQueuePool
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.database.models.theatres import OUTCOMES, RUN_STATUSES
from backend.repositories.judge_ledger import UnitTotals, judge_totals
from backend.repositories.theatre_runs import RunTotals, run_totals
from theatre.engine.state_machine import VALID_TRANSITIONS, TheatreState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)


class Metrics:
    """The metrics of one application, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.in_progress = Gauge(
            "theatre_http_requests_in_progress", "Requests at work.", registry=self.registry
        )
        self._seconds = Histogram(
            "theatre_http_request_seconds",
            "Seconds from the head of a request to the end of its answer.",
            ("route", "method", "status"),
            buckets=_SECONDS,
            registry=self.registry,
        )

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one request under its route's path, as it is declared."""
        known = method if method in _METHODS else "other"
        self._seconds.labels(route, known, str(status)).observe(seconds)

    def render(self) -> bytes:
        """Return all of it in Prometheus's text format."""
        return generate_latest(self.registry)


# Theatres and runs as Prometheus reads them: of the whole deployment, by state and outcome.
#
# They are counted from the rows, so that every process shows the same and a restart loses none.
# No label names a construct, a template or a user.


_FRESH_SECONDS = 5.0
"""Seconds for which a count is reused: the route is public, and counting costs a query."""
_PATIENCE_SECONDS = 2.0
_log = logging.getLogger(__name__)


class TheatreMetrics(Collector):
    """What was last counted, and how much of the database's pool is in use."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._totals: Sequence[RunTotals] | None = None
        self._paid: Sequence[UnitTotals] = ()
        self._counted_at = float("-inf")

    async def count(self) -> None:
        """Count anew unless that was done just now; without its database there are no totals."""
        now = asyncio.get_running_loop().time()
        if now - self._counted_at < _FRESH_SECONDS:
            return
        self._counted_at = now
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS), self._engine.connect() as connection:
                self._totals = await run_totals(connection)
                self._paid = await judge_totals(connection)
        except (SQLAlchemyError, OSError) as error:
            _log.warning("theatres were not counted", exc_info=error)
            self._totals = None

    def collect(self) -> Iterator[Metric]:
        """Yield every family; those of theatres only while the database answers."""
        yield from self._pool()
        if self._totals is not None:
            yield from _of_theatres(self._totals)
            yield from _of_runs(self._totals)
            yield from _of_judges(self._paid)

    def describe(self) -> list[Metric]:
        """Return nothing: the families are known by being collected."""
        return []

    def _pool(self) -> Iterator[Metric]:
        pool = self._engine.pool
        if not isinstance(pool, AsyncAdaptedQueuePool):
            raise TypeError(f"expected an engine with a queue pool, got {type(pool).__name__}")
        family = GaugeMetricFamily(
            "theatre_database_connections",
            "Connections of this process to its database.",
            labels=["state"],
        )
        family.add_metric(["in_use"], pool.checkedout())
        family.add_metric(["idle"], pool.checkedin())
        yield family
        yield GaugeMetricFamily(
            "theatre_database_connections_limit", "The most of them.", value=pool.size()
        )


def _of_theatres(totals: Sequence[RunTotals]) -> Iterator[Metric]:
    in_state = _count_family(totals, lambda one: one.state)
    states = GaugeMetricFamily("theatre_theatres", "Theatres by state.", labels=["state"])
    steps = CounterMetricFamily(
        "theatre_state_transitions", "Steps of theatres, by where they lead.", labels=["to_state"]
    )
    beyond = in_state.total()
    # States have one order: a theatre in one has passed all earlier ones.
    for state in VALID_TRANSITIONS:
        states.add_metric([state.value], in_state[state.value])
        if state is not TheatreState.DRAFT:
            steps.add_metric([state.value], beyond)
        beyond -= in_state[state.value]
    yield from (states, steps)


def _of_runs(totals: Sequence[RunTotals]) -> Iterator[Metric]:
    at_work = _count_family(totals, lambda one: one.run_status)
    statuses = GaugeMetricFamily("theatre_runs", "Runs by status.", labels=["status"])
    for status in RUN_STATUSES:
        statuses.add_metric([status], at_work[status])
    ended = _count_family(totals, lambda one: one.outcome)
    outcomes = CounterMetricFamily(
        "theatre_run_outcomes", "Theatres that are resolved, by outcome.", labels=["outcome"]
    )
    for outcome in OUTCOMES:
        outcomes.add_metric([outcome], ended[outcome])
    yield from (statuses, outcomes)
    for name, text, value in (
        ("theatre_episodes", "Episodes that are recorded.", sum(one.episodes for one in totals)),
        (
            "theatre_episode_failures",
            "Recorded episodes that ended in an error or a timeout.",
            sum(one.failures for one in totals),
        ),
        (
            "theatre_episode_refusals",
            "Recorded episodes that the construct refused.",
            sum(one.refusals for one in totals),
        ),
    ):
        yield CounterMetricFamily(name, text, value=value)


def _of_judges(totals: Sequence[UnitTotals]) -> Iterator[Metric]:
    reserved = GaugeMetricFamily(
        "theatre_judge_reserved", "Reserved for calls to judges under way.", labels=["unit"]
    )
    spent = CounterMetricFamily("theatre_judge_spent", "Spent on judges.", labels=["unit"])
    lost = CounterMetricFamily(
        "theatre_judge_lost",
        "Of what is spent, the maxima of calls that lost their worker.",
        labels=["unit"],
    )
    for one in totals:
        reserved.add_metric([one.unit], one.reserved)
        spent.add_metric([one.unit], one.spent)
        lost.add_metric([one.unit], one.lost)
    yield from (reserved, spent, lost)


def _count_family(
    totals: Sequence[RunTotals], key: Callable[[RunTotals], str | None]
) -> Counter[str | None]:
    counted: Counter[str | None] = Counter()
    for one in totals:
        counted[key(one)] += one.theatres
    return counted
