"""The calls before the commitment, as the command line makes them."""

from __future__ import annotations

import asyncio

from theatre.cli.committing import utc_now
from theatre.cli.workspace import Workspace
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.reachable import ReachableAdapter
from theatre.oracles.remote_construct import RemoteConstruct
from theatre.oracles.wire_forms import WireForm
from theatre.verification import version_probe
from theatre.verification.version_probe import ProbeResult


def probe(service: RemoteConstruct, workspace: Workspace, *, seconds: float) -> ProbeResult:
    """Ask a service for its version: by an envelope, and if need be by a bare record.

    Raises ConstructUnreachableError for one that answers neither as an oracle does,
    or does not in so many seconds.
    """
    # Imported here: aiohttp costs start-up time that a run of local programs need not pay.
    from theatre.cli.http_adapters import make_http_adapter  # noqa: PLC0415  # see above

    def adapter_in(form: WireForm) -> ReachableAdapter:
        return make_http_adapter(service, workspace, form)

    try:
        return asyncio.run(
            version_probe.probe(service.construct_id, adapter_in, seconds=seconds, clock=utc_now)
        )
    except ConstructUnreachableError as error:
        raise ConstructUnreachableError(f"{error}; give --construct-version, or --plain") from error
