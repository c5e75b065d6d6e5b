"""Runs that judges of the operator score: what they cost, how they wait, and how they go on."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backend.main import create_app
from backend.runtime import now
from tests.backend.databases import Database
from tests.backend.judged_stage import (
    USED,
    Treasury,
    debated_stage,
    judge_settings,
    judged_stage,
    most,
)
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import SumsStage
from tests.backend.test_theatre_bridge import bundle_of, committed, run
from tests.theatre.debate.debates import a_debate
from tests.theatre.debate.judged_debates import by_tags, verdicts
from tests.theatre.oracles.loopback import Received, serving
from tests.theatre.runs import checked
from tests.theatre.verification.messages_server import KEY, MessagesService, reading
from theatre.engine.clock import Clock

EPISODES = 6
PRICES = """
[anthropic."a-model"]
input = 3_000_000
output = 15_000_000
"""
PRICED = 10 * 3 + 5 * 15
"""Micro-units that an answer costs at these prices, by the tokens that the server counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Court:
    """A service with a judge, its owner's client, and the operator's hand."""

    ada: Client
    judge: MessagesService
    stage: SumsStage
    treasury: Treasury
    home: Path

    def asked(self) -> int:
        return len(self.judge.requests)


@contextlib.contextmanager
def court(
    database: Database,
    tmp_path: Path,
    *,
    provider: str = "anthropic",
    judge: MessagesService | None = None,
    clock: Clock = now,
    stage: SumsStage | None = None,
    **changes: Any,  # noqa: ANN401 - settings
) -> Iterator[Court]:
    stage = stage or judged_stage(tmp_path / "stage", EPISODES, provider=provider)
    asked = judge or MessagesService(reading, provider=provider)
    with serving(asked.respond) as server:
        judges = judge_settings(provider, f"http://127.0.0.1:{server.port}")
        home = tmp_path / "home"
        settings = settings_for(database, home, **stage.settings, **judges, **changes)
        with served(create_app(settings, clock=clock)) as client:
            yield Court(
                ada=client.registered("ada"),
                judge=asked,
                stage=stage,
                treasury=Treasury(database=database),
                home=home,
            )


def test_a_judged_run_is_certified_checked_and_paid_at_the_operators_prices(
    database: Database, tmp_path: Path
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    with court(database, tmp_path, judge_prices=prices) as at:
        at.treasury.allow_in("micros", "ada", 10**9)
        path = committed(at.ada, at.stage.template)
        theatre = run(at.ada, path).document
        assert (theatre["state"], theatre["outcome"]) == ("ARCHIVED", "certified"), theatre
        assert checked(bundle_of(at.home, path)).consistent
        assert (at.asked(), at.judge.keys) == (EPISODES, {KEY})
        calls = at.treasury.calls()
        assert [(one["unit"], one["spent"], one["settled_as"]) for one in calls] == [
            ("micros", PRICED, "counted")
        ] * EPISODES
        spent = EPISODES * PRICED
        budgets = at.ada.get("/api/v1/judge-budgets").document["budgets"]
        balance = {"allowed": 10**9, "reserved": 0, "spent": spent, "left": 10**9 - spent}
        assert budgets == [
            {"unit": "micros", "total": balance, "today": balance, "per_run": 10**9, "lost": 0}
        ]
        assert (
            f'theatre_judge_spent_total{{unit="micros"}} {spent}.0'
            in at.ada.get("/metrics").body.decode()
        )


def test_each_judge_of_a_debate_is_paid_for_each_turn(database: Database, tmp_path: Path) -> None:
    stage = debated_stage(tmp_path / "stage", 2)
    judge = MessagesService(by_tags, by_model={"another": lambda _: verdicts()})
    with court(database, tmp_path, judge=judge, stage=stage) as at:
        at.treasury.allow("ada", 10**7)
        path = committed(at.ada, stage.template)
        theatre = run(at.ada, path).document
        assert (theatre["state"], theatre["outcome"]) == ("ARCHIVED", "certified"), theatre
        calls = 2 * 2 * len(a_debate()["turns"])
        assert (at.asked(), len(at.treasury.calls())) == (calls, calls)
        assert at.treasury.balance()["spent"] == calls * USED
        certificate = json.loads((bundle_of(at.home, path) / "certificate.json").read_bytes())
        assert certificate["scores"] == {"addition": 0.5}
        assert certificate["verification_tier"] == "UNVERIFIED"


@pytest.mark.parametrize(
    ("limit", "whose", "provider"), [("total", "user", "anthropic"), ("per_run", "run", "openai")]
)
def test_a_run_waits_for_its_budget_and_goes_on_without_asking_again(
    database: Database, tmp_path: Path, limit: str, whose: str, provider: str
) -> None:
    with court(database, tmp_path, provider=provider) as at:
        at.treasury.allow("ada", 0)
        path = committed(at.ada, at.stage.template)
        waiting = run(at.ada, path).document
        assert (waiting["state"], waiting["run"]["status"]) == ("ACTIVE", "waiting_budget")
        assert (at.asked(), waiting["progress"]) == (0, 0)
        assert waiting["error"].startswith("budget-spent: expected a budget that covers ")
        covers = int(waiting["error"].split("covers ")[1].split(" ")[0])
        # What is left covers a third call, and not a fourth.
        enough = {"total": 10**6, limit: covers + 2 * USED}
        at.treasury.allow("ada", enough.pop("total"), **enough)
        waiting = run(at.ada, path).document
        assert (waiting["run"]["status"], waiting["progress"], at.asked()) == (
            "waiting_budget",
            3,
            3,
        )
        assert most(at.judge.requests[0]) == covers
        assert f"{whose} {covers - USED}" in waiting["error"]
        assert at.treasury.balance() | {"allowed": 0} == {
            "allowed": 0,
            "reserved": 0,
            "spent": 3 * USED,
        }
        at.treasury.allow("ada", 10**6)
        done = run(at.ada, path).document
        assert (done["state"], done["outcome"], done["error"]) == ("ARCHIVED", "certified", None)
        assert at.asked() == EPISODES
        assert len({json.dumps(one) for one in at.judge.requests}) == EPISODES
        assert checked(bundle_of(at.home, path)).consistent


def test_a_run_waits_for_another_key_where_that_of_the_operator_is_refused(
    database: Database, tmp_path: Path
) -> None:
    judge = MessagesService(reading, bad_days={2: "401 Unauthorized"})
    with court(database, tmp_path, judge=judge) as at:
        at.treasury.allow("ada", 10**6)
        path = committed(at.ada, at.stage.template)
        waiting = run(at.ada, path).document
        assert (waiting["state"], waiting["run"]["status"]) == ("ACTIVE", "waiting_budget")
        assert (waiting["progress"], waiting["outcome"]) == (2, None)
        assert waiting["error"].startswith("judge-key-refused: expected a key of the operator")
        done = run(at.ada, path).document
        assert (done["outcome"], at.asked()) == ("certified", EPISODES + 1)
        assert checked(bundle_of(at.home, path)).consistent
        assert sorted(one["spent"] for one in at.treasury.calls()) == [0] + [USED] * EPISODES


def test_what_was_answered_but_not_recorded_is_not_asked_again(
    database: Database, tmp_path: Path
) -> None:
    with court(database, tmp_path) as at:
        template: Any = at.stage.template
        # Two answers to each episode, and each is judged.
        template["schema_version"], template["execution_policy"]["repeats"] = "2.2.0", 2
        at.treasury.allow("ada", 0)
        path = committed(at.ada, template)
        covers = int(run(at.ada, path).document["error"].split("covers ")[1].split(" ")[0])
        # The first of the two answers to the second episode is the last that is paid.
        at.treasury.allow("ada", covers + 2 * USED)
        waiting = run(at.ada, path).document
        assert (waiting["progress"], at.asked()) == (1, 3)
        at.treasury.allow("ada", 10**6)
        done = run(at.ada, path).document
        assert (done["outcome"], at.asked()) == ("certified", 2 * EPISODES)
        assert checked(bundle_of(at.home, path)).consistent
        assert [one["spent"] for one in at.treasury.calls()] == [USED] * 2 * EPISODES


class PairedJudge(MessagesService):
    """Answers nothing before a second request has come: two are under way then."""

    def __init__(self) -> None:
        super().__init__(reading)
        self._arrived = 0
        self._paired = asyncio.Event()

    async def respond(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self._arrived += 1
        if self._arrived > 1:
            self._paired.set()
        await self._paired.wait()
        await super().respond(request, writer)


def test_calls_under_way_are_waited_for_before_a_run_is_said_to_have_spent_its_budget(
    database: Database, tmp_path: Path
) -> None:
    with court(database, tmp_path, judge=PairedJudge()) as at:
        template: Any = at.stage.template
        template["execution_policy"]["max_concurrency"] = 4
        at.treasury.allow("ada", 0)
        path = committed(at.ada, template)
        covers = int(run(at.ada, path).document["error"].split("covers ")[1].split(" ")[0])
        at.treasury.allow("ada", 2 * covers + EPISODES * USED)
        done = run(at.ada, path).document
        assert (done["outcome"], at.asked()) == ("certified", EPISODES)
        assert {one["settled_as"] for one in at.treasury.calls()} == {"counted"}


def test_a_new_day_has_a_new_allowance(database: Database, tmp_path: Path) -> None:
    began = datetime.now(UTC)
    midnight = began.replace(hour=0, minute=0, second=0, microsecond=0)
    jump = [midnight - timedelta(minutes=20) - began]
    with court(database, tmp_path, clock=lambda: datetime.now(UTC) + jump[0]) as at:
        at.treasury.allow("ada", 10**6, per_day=0)
        path = committed(at.ada, at.stage.template)
        covers = int(run(at.ada, path).document["error"].split("covers ")[1].split(" ")[0])
        at.treasury.allow("ada", 10**6, per_day=covers + 2 * USED)
        assert run(at.ada, path).document["progress"] == 3
        again = run(at.ada, path).document
        assert (again["run"]["status"], again["progress"], at.asked()) == ("waiting_budget", 3, 3)
        jump[0] += timedelta(minutes=40)
        done = run(at.ada, path).document
        assert (done["outcome"], at.asked()) == ("certified", EPISODES)
        yesterday, today = (midnight - timedelta(days=1)).date(), midnight.date()
        days_paid = [one["day"] for one in at.treasury.calls()]
        assert days_paid == [str(yesterday)] * 3 + [str(today)] * 3


def test_a_waiting_run_is_cancelled_and_keeps_what_it_began_as(
    database: Database, tmp_path: Path
) -> None:
    with court(database, tmp_path) as at:
        path = committed(at.ada, at.stage.template)
        waiting = run(at.ada, path).document
        assert (waiting["run"]["status"], at.asked()) == ("waiting_budget", 0)
        assert "no budget" in waiting["error"]
        assert at.ada.get("/api/v1/judge-budgets").document["budgets"] == []
        other = run(at.ada, path, is_certificate_run=False)
        assert (other.status, other.slug) == (409, "invalid-transition")
        cancelled = at.ada.post(f"{path}/cancel", b"", headers={"Prefer": "wait=60"}).document
        assert (cancelled["outcome"], cancelled["outcome_reason"]) == ("void", "cancelled")


def test_a_call_that_counts_no_tokens_costs_nothing_or_its_maximum_and_shows_no_key(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    judge = MessagesService(reading, bad_days={0: "echo", 1: "reset"})
    with court(database, tmp_path, judge=judge) as at:
        at.treasury.allow("ada", 10**6)
        path = committed(at.ada, at.stage.template)
        theatre = run(at.ada, path).document
        assert (theatre["state"], theatre["progress"]) == ("ARCHIVED", EPISODES)
        refused, lost, *others = at.treasury.calls()
        assert (refused["spent"], refused["settled_as"]) == (0, "refused")
        assert (lost["spent"], lost["settled_as"]) == (lost["reserved"], "not-counted")
        assert [one["spent"] for one in others] == [USED] * (EPISODES - 1)
        parts = ("", "/episodes", "/episodes/sum-1", "/audit-events")
        shown = [at.ada.get(f"{path}{part}").body for part in parts]
    rows = str(database.rows("SELECT * FROM judge_calls")).encode()
    files = [one.read_bytes() for one in at.home.rglob("*") if one.is_file()]
    assert not any(KEY.encode() in one for one in (*shown, rows, *files))
    assert "is charged its maximum: not-counted" in caplog.text
    assert KEY not in caplog.text
