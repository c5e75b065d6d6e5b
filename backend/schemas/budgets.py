"""What a user's runs may spend on judges, and what is left of it."""

from datetime import date
from typing import Literal

from pydantic import Field

from backend.schemas.base import ResponseDocument

BudgetUnit = Literal["micros", "tokens"]


class BalanceDocument(ResponseDocument):
    """An allowance in whole units, and where it has gone."""

    allowed: int = Field(ge=0)
    reserved: int = Field(ge=0, description="the most that calls under way can cost")
    spent: int = Field(ge=0)
    left: int = Field(ge=0, description="what a next call may cost")


class BudgetDocument(ResponseDocument):
    """A budget in one unit."""

    unit: BudgetUnit = Field(
        description="`micros`, millionths of the currency of the operator's prices, or `tokens`, "
        "of models that have no price"
    )
    total: BalanceDocument
    today: BalanceDocument = Field(description="of the day in UTC")
    per_run: int = Field(ge=0, description="what one run may spend")
    lost: int = Field(
        ge=0,
        description="of `total.spent`, the maxima of calls that lost their worker before they were "
        "settled",
    )


class Budgets(ResponseDocument):
    """A user's budgets; none where the operator has set none."""

    day: date
    budgets: list[BudgetDocument]
