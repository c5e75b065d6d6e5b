"""The constructs that debate in a sweep: their versions, and the way to each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from theatre.cli.committing import utc_now
from theatre.cli.reaching import check_all_reachable, make_adapter
from theatre.cli.workspace import Workspace
from theatre.debate.debaters import ConstructDebater
from theatre.debate.errors import SweepError
from theatre.debate.sweep import SweepPlan
from theatre.oracles.construct_registry import construct_version
from theatre.oracles.endpoints import Construct
from theatre.oracles.reachable import ReachableAdapter
from theatre.oracles.remote_construct import RemoteConstruct
from theatre.oracles.retry import make_retrying_invoker, require_reachable


def versions_of(plan: SweepPlan, workspace: Workspace, folder: Path) -> dict[str, str]:
    """Return the version of each construct in the plan: computed, or for a URL the plan's own pin.

    Raises SweepError where a pin is missing or differs, and what `find_registered` raises.
    """
    return {
        one: _version(workspace.find_registered(one, folder), plan.pins.get(one))
        for one in plan.constructs
    }


@contextlib.asynccontextmanager
async def open_debaters(
    versions: Mapping[str, str], workspace: Workspace, folder: Path
) -> AsyncIterator[Mapping[str, ConstructDebater]]:
    """Start or connect every construct, by its id; close them all.

    One that is gone later raises ConstructUnreachableError in the midst of its run.
    """
    adapters: dict[str, ReachableAdapter] = {}
    async with contextlib.AsyncExitStack() as stack:
        for one in versions:
            adapters[one] = make_adapter(workspace.find_registered(one, folder), workspace)
            stack.push_async_callback(adapters[one].aclose)
        await check_all_reachable(adapters)
        invoke = require_reachable(make_retrying_invoker(asyncio.sleep), adapters)
        yield {
            one: ConstructDebater(
                adapters[one],
                invoke=invoke,
                construct_id=one,
                construct_version=version,
                clock=utc_now,
            )
            for one, version in versions.items()
        }


def _version(construct: Construct, pin: str | None) -> str:
    name = construct.construct_id
    if isinstance(construct, RemoteConstruct):
        if pin is None:
            raise SweepError(f"expected a version of {name} in pins, got none: it has a url")
        return pin
    version = construct_version(construct)
    if pin not in {None, version}:
        raise SweepError(f"expected {name} at version {pin}, got {version}")
    return version
