"""Which construct `--construct` names, how it is reached, and which version of it is pinned."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from theatre.cli.committing import utc_now
from theatre.cli.workspace import CONSTRUCTS_FILE, Workspace
from theatre.files.durable import replace_durably
from theatre.oracles.construct_registry import RegisteredConstruct, construct_version
from theatre.oracles.endpoints import REGISTERED, refuse_unused_headers
from theatre.oracles.python_callable import construct_from_callable
from theatre.oracles.reachable import ReachableAdapter
from theatre.oracles.remote_construct import RemoteConstruct
from theatre.verification.template import OracleUnderTest
from theatre.verification.version_probe import reported_version


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedOracle:
    """What the user says about the construct; `folder` is where a callable's module lies."""

    place: str
    construct_type: str | None
    construct_id: str
    version: str | None
    folder: Path
    headers_env: Mapping[str, str]

    @property
    def is_service(self) -> bool:
        """Say whether it is called by its URL."""
        if self.construct_type is not None:
            return self.construct_type == "http"
        return self.place.startswith(("http://", "https://"))


def oracle_under_test(
    named: NamedOracle, workspace: Workspace, run_folder: Path
) -> OracleUnderTest:
    """Return the construct with its pin; a callable is registered in `run_folder`.

    `construct:<id>` is a registered construct, `module:name` a Python callable, all else a URL. A
    version that is not given is computed for what runs here, and asked for elsewhere, by one call
    that is not scored. Raises as the registry, the callable's finder and the adapter, and
    ConstructUnreachableError for a service that reports no version.
    """
    if named.place.startswith(REGISTERED):
        refuse_unused_headers((), named.headers_env)
        registered_id = named.place.removeprefix(REGISTERED)
        construct = workspace.find_registered(registered_id, run_folder)
        return _registered(construct, named, workspace)
    if named.is_service:
        service = RemoteConstruct(
            construct_id=named.construct_id, url=named.place, headers_env=named.headers_env
        )
        return OracleUnderTest(
            construct_id=named.construct_id,
            version=named.version or asyncio.run(_reported_version(service, workspace)),
            adapter_type="http",
            endpoint=named.place,
        )
    refuse_unused_headers((), named.headers_env)
    callable_ = construct_from_callable(named.construct_id, named.place, named.folder)
    _register(callable_, named.place, run_folder)
    return _registered(callable_, named, workspace)


def _registered(
    construct: RegisteredConstruct | RemoteConstruct, named: NamedOracle, workspace: Workspace
) -> OracleUnderTest:
    if isinstance(construct, RemoteConstruct):
        version = named.version or asyncio.run(_reported_version(construct, workspace))
        adapter_type = "http"
    else:
        version = named.version or construct_version(construct)
        adapter_type = "local" if construct.start_seconds is None else "http"
    return OracleUnderTest(
        construct_id=construct.construct_id,
        version=version,
        adapter_type=adapter_type,
        endpoint=f"{REGISTERED}{construct.construct_id}",
    )


def _register(construct: RegisteredConstruct, target: str, run_folder: Path) -> None:
    """Write a callable into the run's own registry: the template then names no folder."""
    kit = ["{python}", "-P", "-B", "-m", "theatre.construct_kit", "--stdio"]
    argv = [*kit, "--folder", "{folder}", target]
    # A JSON string is a TOML string, and so is an array of them.
    lines = (
        f"[constructs.{construct.construct_id}]",
        f"argv = {json.dumps(argv)}",
        f"folder = {json.dumps(str(construct.folder), ensure_ascii=False)}",
        f"files = {json.dumps(list(construct.files), ensure_ascii=False)}",
    )
    text = "".join(f"{line}\n" for line in lines)
    replace_durably(run_folder / CONSTRUCTS_FILE, text.encode())


async def _reported_version(service: RemoteConstruct, workspace: Workspace) -> str:
    # Imported here: aiohttp costs start-up time that a run of local programs need not pay.
    from theatre.cli.http_adapters import http_adapter  # noqa: PLC0415  # see above

    adapter: ReachableAdapter = http_adapter(service, workspace)
    async with contextlib.aclosing(adapter):
        return await reported_version(adapter, service.construct_id, clock=utc_now)
