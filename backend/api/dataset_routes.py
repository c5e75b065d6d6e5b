"""Ground truth, uploaded by users who are not on the server."""

from typing import Annotated

from fastapi import Path, Request

from backend.api.http.access_policy import CurrentUser, for_owner, for_users, resource_router
from backend.api.http.bodies import require_media_type
from backend.api.http.idempotency import Transaction
from backend.api.http.service import get_service
from backend.auth.credentials import Scope
from backend.repositories.theatres import StoredDataset
from backend.schemas.theatres import DatasetDocument
from backend.services.datasets import read_upload, take_upload
from backend.services.ground_truth import UPLOADED

router = resource_router("datasets")
LINES = "application/x-ndjson"
_BODY = {"content": {LINES: {"schema": {"type": "string", "minLength": 1}}}, "required": True}


@router.post("/datasets", status_code=201, openapi_extra={"requestBody": _BODY})
# The same bytes again are the same dataset: a key would only make the body be read twice.
@for_users(Scope.WRITE, "dataset-unavailable", idempotent=False)
async def upload_dataset(request: Request, user: CurrentUser) -> DatasetDocument:
    """Upload ground truth, JSON lines of at most 64 MiB; it is named by its hash."""
    require_media_type(request, LINES, "application/jsonl")
    service = get_service(request)
    return _shown(
        await take_upload(
            service.engine, request.stream(), user_id=user.user_id, resources=service.resources
        )
    )


@router.get("/datasets/{sha256}")
@for_owner(Scope.READ, "not-found")
async def get_dataset(
    user: CurrentUser,
    sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")],
    transaction: Transaction,
) -> DatasetDocument:
    """Return what is known of an upload of yours."""
    return _shown(await read_upload(transaction, sha256, user_id=user.user_id))


def _shown(dataset: StoredDataset) -> DatasetDocument:
    return DatasetDocument(name=f"{UPLOADED}{dataset.sha256}", **dataset._asdict())
