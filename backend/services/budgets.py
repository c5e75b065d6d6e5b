"""Budgets for judges, as users and the operator read them."""

from collections.abc import Sequence

from backend.repositories.judge_ledger import Balance, UserBudget
from theatre.engine.canonical_json import JsonObject


def budget_documents(budgets: Sequence[UserBudget]) -> list[JsonObject]:
    """Return budgets as documents, in whole units."""
    return [
        {
            "unit": one.unit,
            "total": _balance(one.total),
            "today": _balance(one.today),
            "per_run": one.per_run,
            "lost": one.lost,
        }
        for one in budgets
    ]


def _balance(balance: Balance) -> JsonObject:
    return {**balance._asdict(), "left": balance.left}
