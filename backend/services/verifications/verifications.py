"""Verifications for their owner, and the public list of their certificates."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.database.models.base import new_id
from backend.jobs.queue import queue_ingestion
from backend.repositories.certificate_views import CertificateView
from backend.repositories.evidence_views import find_bundle
from backend.repositories.pages import Page, Window
from backend.repositories.theatres import TheatreView, find_theatre_view, find_uploads
from backend.repositories.verifications import (
    StoredVerification,
    count_verified,
    end_ingestion,
    find_verification,
    find_verified_certificates,
    insert_verification,
)
from backend.schemas.verifications import (
    CloneSource,
    GitHubSource,
    OracleChoice,
    RecordsSource,
    VerificationRequest,
)
from backend.services.certificates import CurrentStatus, with_status
from backend.services.constructs import ConstructAccess
from backend.services.ground_truth import UPLOADED
from backend.services.resources import TheatreResources
from backend.services.runs.execution import WAITING_BUDGET
from backend.services.runs.runs import cancel_run
from backend.services.sealed_bundles import fetch_verified_bundle
from theatre.engine.canonical_json import JsonObject, sha256_hex
from theatre.engine.errors import DatasetError, InvalidTransitionError, NotFoundError
from theatre.engine.scoring.measure_policy import Qualification
from theatre.oracles.construct_registry import RegisteredConstruct, construct_version
from theatre.oracles.endpoints import REGISTERED, Endpoint
from theatre.verification.certificate import verification_certificate
from theatre.verification.errors import TooFewReplaysError
from theatre.verification.template import (
    LOCAL_CLONE,
    OracleUnderTest,
    ReliedOn,
    Terms,
    oracle_template,
    qualification_dataset,
)
from theatre.verification.version_probe import NO_VERSION, probe

# What a verification commits to: the construct with its version, and the template about it.


def draft_of(
    request: VerificationRequest, constructs: ConstructAccess, found: Mapping[str, Sequence[str]]
) -> JsonObject:
    """Return the template but for dataset and version, to be judged before anything is stored.

    `found` has the addresses of its endpoint. Raises as `ConstructAccess.check_named`.
    """
    oracle = request.oracle
    place = oracle.endpoint or f"{REGISTERED}{oracle.construct_id}"
    named = Endpoint(construct_id=oracle.construct_id, adapter_type="http", place=place)
    constructs.check_named([named], found)
    endpoint = _endpoint(oracle, constructs)
    under_test = _under_test(endpoint, oracle.version or NO_VERSION)
    return template_of(request, under_test, b"", changes=request.min_replays)


def template_of(
    request: VerificationRequest,
    oracle: OracleUnderTest,
    dataset: bytes,
    *,
    changes: int,
    qualification: Qualification | None = None,
) -> JsonObject:
    """Return the template of a verification of so many changes; datasets are named as uploads are.

    QualificationError for a `qualification` that is about no measure of it.
    """
    is_github = isinstance(request.source, GitHubSource)
    terms = Terms(
        weights=request.weights.shares(),
        timeout_seconds=request.timeout_seconds,
        ground_truth_source="GITHUB_API" if is_github else "CUSTOM",
        repository=_repository(request),
        minimum_replays=request.min_replays,
    )
    scoring = request.scoring(changes)
    relied_on: dict[str, ReliedOn] = {}
    if request.judge and request.judge.qualification_sha256 and qualification:
        file_sha256 = request.judge.qualification_sha256
        one = ReliedOn(file_sha256=file_sha256, sha256=qualification.sha256)
        relied_on = dict.fromkeys(sorted(scoring.measured_by(qualification)), one)
    sha256 = sha256_hex(dataset)
    template = oracle_template(oracle, terms, sha256, scoring=scoring, relied_on=relied_on)
    config = cast("JsonObject", template["product_theatre_config"])
    config["replay_data_path"] = f"{UPLOADED}{sha256}"
    if relied_on:
        hashes = {qualification_dataset(name): one.file_sha256 for name, one in relied_on.items()}
        config["dataset_paths"] = {name: f"{UPLOADED}{one}" for name, one in hashes.items()}
    return template


async def oracle_under_test(
    request: OracleChoice, constructs: ConstructAccess, *, seconds: float
) -> OracleUnderTest:
    """Return the construct with its pin: the one that was given, or that it has, or reports.

    A service is asked by one call or two, which are not scored; one that knows no envelope is
    spoken to plainly from then on. Raises what `ConstructAccess.open_adapters` raises,
    ConstructFilesError, and ConstructUnreachableError for one that answers as no oracle does.
    """
    endpoint = _endpoint(request, constructs)
    construct = constructs.construct_at(endpoint)
    if request.version is not None:
        return _under_test(endpoint, request.version)
    if isinstance(construct, RegisteredConstruct):
        return _under_test(endpoint, await asyncio.to_thread(construct_version, construct))
    probed = await probe(
        request.construct_id,
        lambda form: constructs.adapter_at(endpoint, form),
        seconds=seconds,
        clock=constructs.clock,
    )
    return _under_test(endpoint, probed.version or NO_VERSION, probed.form.pin)


def _under_test(endpoint: Endpoint, version: str, pin: str | None = None) -> OracleUnderTest:
    return OracleUnderTest(
        construct_id=endpoint.construct_id,
        version=version,
        adapter_type=endpoint.adapter_type,
        endpoint=endpoint.place,
        adapter_pin=pin,
    )


def _repository(request: VerificationRequest) -> str:
    """Return what the template says of the repository; a folder's path must not be published."""
    match request.source:
        case GitHubSource(repository=name):
            return f"https://github.com/{name}"
        case CloneSource():
            return LOCAL_CLONE
        case RecordsSource():
            return "uploaded-records"


def _endpoint(request: OracleChoice, constructs: ConstructAccess) -> Endpoint:
    if request.endpoint is not None:
        return Endpoint(
            construct_id=request.construct_id, adapter_type="http", place=request.endpoint
        )
    construct = constructs.registry.find_registered(request.construct_id)
    is_program = isinstance(construct, RegisteredConstruct) and construct.start_seconds is None
    return Endpoint(
        construct_id=request.construct_id,
        adapter_type="local" if is_program else "http",
        place=f"{REGISTERED}{request.construct_id}",
    )


CANCELLED = "cancelled"
"""The error code of a verification that its owner cancelled before the commitment."""
_ENDED = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A verification, and its theatre where it has one."""

    stored: StoredVerification
    theatre: TheatreView | None

    @property
    def phase(self) -> str:
        """Return its phase, in the words of the interface."""
        if self.theatre is None:
            return "finished" if self.stored.phase == "failed" else self.stored.phase
        if self.theatre.run_status in _ENDED:
            return "finished"
        if self.theatre.run_status == WAITING_BUDGET:
            return WAITING_BUDGET
        return "committed" if self.theatre.run_status == "queued" else "replaying"

    @property
    def ending(self) -> tuple[str | None, str | None]:
        """Return outcome and reason; both None before it is finished, the reason also after.

        A theatre whose certificate is of fewer changes than were asked for is no verification.
        """
        if self.phase != "finished":
            return None, None
        theatre = self.theatre
        if theatre is None:
            code = self.stored.error_code
            return "void" if code == CANCELLED else "failed", code
        if theatre.outcome is None:
            # The run could not begin: the theatre stays COMMITTED.
            return "failed", (theatre.error or "").partition(":")[0] or None
        if theatre.outcome == "certified" and (self.stored.scored or 0) < self.stored.min_replays:
            return "no_certificate", TooFewReplaysError.code
        return theatre.outcome, theatre.outcome_reason


async def request_verification(
    connection: AsyncConnection,
    request: VerificationRequest,
    found: Mapping[str, Sequence[str]],
    *,
    user_id: str,
    resources: TheatreResources,
) -> Verified:
    """Store a request, and queue the reading of its ground truth.

    `found` has the addresses of its endpoint. Raises UnknownConstructError, OutboundRefusedError,
    InvalidTemplateError for what could never be committed, and DatasetError for records that the
    user has not uploaded.
    """
    draft = draft_of(request, resources.constructs, found)
    await asyncio.to_thread(resources.require_valid, draft)
    uploads = await find_uploads(connection, user_id)
    for what, sha256 in request.named_uploads.items():
        if sha256 not in uploads:
            raise DatasetError(f"expected {what} that you have uploaded: POST /datasets")
    now = resources.clock()
    verification_id = new_id(now)
    await insert_verification(
        connection,
        verification_id=verification_id,
        user_id=user_id,
        request=request.as_stored(),
        min_replays=request.min_replays,
        at=now,
    )
    await queue_ingestion(connection, verification_id)
    return await read_verification(connection, verification_id, user_id=user_id)


async def read_verification(
    connection: AsyncConnection, verification_id: str, *, user_id: str
) -> Verified:
    """Return a user's verification; NotFoundError where it is not theirs."""
    stored = await find_verification(connection, verification_id, user_id=user_id)
    if stored is None:
        raise NotFoundError(f"expected verification {verification_id}, got none")
    # Read second: the theatre may have been created since the first read.
    theatre = await find_theatre_view(connection, verification_id, user_id=user_id)
    return Verified(stored=stored, theatre=theatre)


async def cancel_verification(
    connection: AsyncConnection,
    engine: AsyncEngine,
    verification_id: str,
    *,
    user_id: str,
    resources: TheatreResources,
) -> Verified:
    """Stop a user's verification: at once before it is committed, after that as any run.

    Raises NotFoundError where it is not theirs, and as `cancel_run` once it has a theatre;
    InvalidTransitionError for one that has ended without.
    """
    ended = await end_ingestion(
        connection,
        verification_id,
        user_id=user_id,
        error_code=CANCELLED,
        error="cancelled by its owner before anything was committed",
        at=resources.clock(),
    )
    verified = await read_verification(connection, verification_id, user_id=user_id)
    if ended:
        return verified
    if verified.theatre is None:
        raise InvalidTransitionError("the verification is finished: it cannot be cancelled")
    await cancel_run(
        connection, engine, verification_id, user_id=user_id, versions=None, resources=resources
    )
    return await read_verification(connection, verification_id, user_id=user_id)


async def read_result(
    connection: AsyncConnection, verification_id: str, *, user_id: str, resources: TheatreResources
) -> bytes:
    """Return the verification certificate, made from the sealed bundle: the same bytes each time.

    Raises NotFoundError where it is not the user's, InvalidTransitionError where it has none.
    """
    verified = await read_verification(connection, verification_id, user_id=user_id)
    archive = await find_bundle(connection, verification_id)
    outcome, reason = verified.ending
    if outcome != "certified" or archive is None:
        ended = f"ended as {outcome} ({reason})" if outcome else f"is {verified.phase}"
        raise InvalidTransitionError(
            f"expected a verification that has earned its certificate, got one that {ended}"
        )
    bundle = await asyncio.to_thread(
        fetch_verified_bundle, resources.store, verification_id, archive
    )
    return await asyncio.to_thread(verification_certificate, bundle)


async def list_verified(
    connection: AsyncConnection,
    window: Window,
    *,
    construct_id: str | None,
    resources: TheatreResources,
    now: datetime,
) -> Page[tuple[CertificateView, CurrentStatus]]:
    """Return a page of the certificates that verifications have earned, the newest first.

    Each with what it is worth now.
    """
    accepted = resources.accepted_templates.content_hashes
    views = await find_verified_certificates(
        connection, window, construct_id=construct_id, accepted=accepted
    )
    total = await count_verified(connection, construct_id=construct_id)
    return Page(await with_status(connection, views, resources=resources, now=now), total)
