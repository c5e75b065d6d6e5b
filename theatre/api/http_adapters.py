"""Adapters that speak HTTP. Imported by the runs that need one: the client takes its time."""

import time

from theatre.api.event_loop import complete
from theatre.api.workspace import OUTBOUND_ALLOW, Workspace, utc_now
from theatre.oracles.construct_registry import RegisteredConstruct
from theatre.oracles.endpoints import Construct, ReachableAdapter
from theatre.oracles.errors import OutboundPolicyError
from theatre.oracles.http import http_adapter_for
from theatre.oracles.key_origins import KeyOrigins
from theatre.oracles.outbound_policy import OutboundPolicy, resolve_addresses
from theatre.oracles.plain_adapters import Surroundings
from theatre.oracles.served import served_adapter_for
from theatre.oracles.wire_forms import ENVELOPES, WireForm


def make_http_adapter(
    construct: Construct, workspace: Workspace, form: WireForm = ENVELOPES
) -> ReachableAdapter:
    """Return the adapter of a program that serves HTTP, or of a service elsewhere.

    Only a service elsewhere can be spoken to in another form than envelopes.

    Raises ConstructTransportError for a program that does not, and OutboundPolicyError,
    OutboundRefusedError and RequestHeadersError for a service that cannot be called.
    """
    if isinstance(construct, RegisteredConstruct):
        return served_adapter_for(construct, clock=utc_now, monotonic=time.monotonic)
    return http_adapter_for(
        construct,
        policy=outbound_policy(workspace),
        environment=workspace.environment,
        clock=utc_now,
        monotonic=time.monotonic,
        keys=KeyOrigins.parse(workspace.key_origins),
        form=form,
    )


def check_address(place: str, workspace: Workspace) -> str | None:
    """Return what is doubtful of a URL now; raises as `OutboundPolicy.judge_found`."""
    policy = outbound_policy(workspace)
    url = policy.check_url(place)
    found = complete(resolve_addresses(policy, [place]))
    return policy.judge_found(url, found.get(place, ()))


def surroundings(workspace: Workspace) -> Surroundings:
    """Return what adapters without envelopes take of the command line."""
    return Surroundings(
        policy=lambda: outbound_policy(workspace),
        environment=workspace.environment,
        clock=utc_now,
        monotonic=time.monotonic,
        keys=KeyOrigins.parse(workspace.key_origins),
    )


def outbound_policy(workspace: Workspace) -> OutboundPolicy:
    """Return where calls may go; OutboundPolicyError names the variable."""
    try:
        return OutboundPolicy(allow=workspace.outbound_allow)
    except OutboundPolicyError as error:
        raise OutboundPolicyError(f"{OUTBOUND_ALLOW}: {error}") from error
