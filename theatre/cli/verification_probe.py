"""The calls before the commitment: which version a service reports, and whether it knows envelopes.

None of them is scored or recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from theatre.cli.committing import utc_now
from theatre.cli.workspace import Workspace
from theatre.engine.clock import format_rfc3339
from theatre.engine.oracle_contract import (
    Attempt,
    OracleInvocationMetadata,
    OracleInvocationRequest,
)
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.remote_construct import RemoteConstruct
from theatre.oracles.wire_forms import ENVELOPES, WireForm
from theatre.verification.plain_oracle import (
    PLAIN_ORACLE,
    QUESTION,
    is_oracle_output,
    is_raw_oracle_output,
)
from theatre.verification.records import record_of

NO_VERSION = "0000000"
"""The pin of an oracle that reports none; whoever has one reports another."""

_PROBE_ID = "00000000-0000-5000-8000-000000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What a service turned out to be; `version` is None where it reports none."""

    version: str | None
    form: WireForm


def probe(service: RemoteConstruct, workspace: Workspace) -> Probed:
    """Ask a service for its version: by an envelope, and if need be by a bare record.

    Raises ConstructUnreachableError for one that answers neither as an oracle does.
    """
    return asyncio.run(_probe(service, workspace))


async def _probe(service: RemoteConstruct, workspace: Workspace) -> Probed:
    attempt = await _asked(service, workspace, ENVELOPES)
    reported = attempt.response.construct_version
    if reported is not None:
        return Probed(version=reported, form=ENVELOPES)
    if is_raw_oracle_output(attempt.raw):
        return Probed(version=None, form=PLAIN_ORACLE)
    plain = await _asked(service, workspace, PLAIN_ORACLE)
    if is_oracle_output(plain.response.output_data):
        return Probed(version=None, form=PLAIN_ORACLE)
    raise ConstructUnreachableError(
        f"expected {service.construct_id} to report its version, or to answer a bare record with "
        f"summary, key_claims and follow_up_response, got {attempt.reason}: "
        f"{attempt.response.error_detail}; give --construct-version, or --plain"
    )


async def _asked(service: RemoteConstruct, workspace: Workspace, form: WireForm) -> Attempt:
    # Imported here: aiohttp costs start-up time that a run of local programs need not pay.
    from theatre.cli.http_adapters import http_adapter  # noqa: PLC0415  # see above

    adapter = http_adapter(service, workspace, form)
    async with contextlib.aclosing(adapter):
        return await adapter.invoke(_request(service.construct_id))


def _request(construct_id: str) -> OracleInvocationRequest:
    """Return a call for no version that there is: whoever answers says which one it has."""
    record = record_of(
        id="probe",
        commit="",
        message="",
        diff="",
        unread_diff_bytes=0,
        paths=[],
        timestamp=utc_now(),
        labels=[],
        author="",
    )
    return OracleInvocationRequest(
        invocation_id=_PROBE_ID,
        theatre_id=_PROBE_ID,
        episode_id="probe",
        construct_id=construct_id,
        construct_version=NO_VERSION,
        input_data={"record": record.as_document(), QUESTION: "Which version are you?"},
        metadata=OracleInvocationMetadata(invoked_at=format_rfc3339(utc_now())),
    )
