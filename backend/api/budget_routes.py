"""What the operator lets a user's runs spend on judges."""

from fastapi import Request

from backend.api.http.access_policy import CurrentUser, for_owner, resource_router
from backend.api.http.idempotency import Transaction
from backend.api.http.service import get_service
from backend.auth.credentials import Scope
from backend.repositories.judge_ledger import read_budgets
from backend.schemas.budgets import Budgets
from backend.services.budgets import budget_documents

router = resource_router("budgets")


@router.get("/judge-budgets")
@for_owner(Scope.READ)
async def get_judge_budgets(
    request: Request, user: CurrentUser, transaction: Transaction
) -> Budgets:
    """Say what your runs may still spend on judges; without a budget none is asked."""
    day = get_service(request).clock().date()
    found = await read_budgets(transaction, user.user_id, day=day)
    return Budgets.model_validate({"day": day, "budgets": budget_documents(found)})
