"""What a verification commits to: the construct with its version, and the template about it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

from backend.services.construct_access import ConstructAccess
from backend.services.ground_truth import UPLOADED
from backend.services.verification_wishes import (
    CloneRequest,
    GitHubRequest,
    OracleRequest,
    UploadRequest,
    VerificationRequest,
)
from theatre.engine.canonical_json import JsonObject, sha256_hex
from theatre.oracles.construct_registry import RegisteredConstruct, construct_version
from theatre.oracles.endpoints import REGISTERED, Endpoint
from theatre.verification.template import LOCAL_CLONE, OracleUnderTest, Terms, oracle_template
from theatre.verification.version_probe import NO_VERSION, probe


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
    return template_of(request, _under_test(endpoint, oracle.version or NO_VERSION), b"")


def template_of(
    request: VerificationRequest, oracle: OracleUnderTest, dataset: bytes
) -> JsonObject:
    """Return the template of a verification; its dataset is named as an upload is."""
    is_github = isinstance(request.source, GitHubRequest)
    terms = Terms(
        weights=request.weights,
        timeout_seconds=request.timeout_seconds,
        ground_truth_source="GITHUB_API" if is_github else "CUSTOM",
        repository=_repository(request),
        minimum_replays=request.min_replays,
    )
    sha256 = sha256_hex(dataset)
    template = oracle_template(oracle, terms, sha256)
    config = cast("JsonObject", template["product_theatre_config"])
    path = f"{UPLOADED}{sha256}"
    return {**template, "product_theatre_config": {**config, "replay_data_path": path}}


async def oracle_under_test(
    request: OracleRequest, constructs: ConstructAccess, *, seconds: float
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
        case GitHubRequest(repository=name):
            return f"https://github.com/{name}"
        case CloneRequest():
            return LOCAL_CLONE
        case UploadRequest():
            return "uploaded-records"


def _endpoint(request: OracleRequest, constructs: ConstructAccess) -> Endpoint:
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
