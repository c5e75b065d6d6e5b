"""`echelon debate evaluate`: which evaluators run, and which one is told the truth."""

from pathlib import Path

import pytest

from tests.theatre.debate.scripted_runs import FIXTURES
from tests.theatre.forked_echelon import forked

LOOP = FIXTURES / "scripted" / "wool_prices_after_the_drought-2-in_loop.json"


def test_raudit_runs_where_it_is_told_the_truth_and_counts_by_it(tmp_path: Path) -> None:
    alone = forked("debate", "evaluate", LOOP, home=tmp_path)
    names = [one["evaluator"] for one in alone.document["results"]]
    assert names == ["crit_struct/1", "pid/1", "rca_struct/1", "t3_struct/1"]

    def counts(*truths: str) -> dict[str, int]:
        told = [part for truth in truths for part in ("--truth", truth)]
        results = forked("debate", "evaluate", LOOP, *told, home=tmp_path).document["results"]
        assert [one["evaluator"] for one in results] == sorted([*names, "raudit/1"])
        (raudit,) = [one for one in results if one["evaluator"] == "raudit/1"]
        found: dict[str, int] = raudit["summary"]["per_retry"]["counts"]
        return found

    buy, sell, one = counts("BUY"), counts("SELL"), counts("bo=BUY")
    # The scripted debaters know two answers: what is true by the one is false by the other.
    assert (buy["TF"], buy["FT"], buy["TT"]) == (sell["FT"], sell["TF"], sell["FF"])
    assert 0 < sum(one.values()) < sum(buy.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--evaluator", "raudit"), "expected --truth for raudit, got none"),
        (("--truth", "ann=EAT"), "expected --truth to end in one of BUY, SELL, SHORT, HOLD"),
    ],
)
def test_what_it_cannot_do_it_says(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    answer = forked("debate", "evaluate", LOOP, *arguments, home=tmp_path)
    assert (answer.code, message in answer.stderr) == (2, True)
