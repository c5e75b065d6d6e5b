"""Which construct `--construct` names, how it is reached, and which version of it is pinned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from theatre.cli.verification_probe import probe
from theatre.cli.workspace import CONSTRUCTS_FILE, Workspace
from theatre.files.durable import replace_durably
from theatre.oracles.construct_registry import RegisteredConstruct, construct_version
from theatre.oracles.endpoints import REGISTERED, refuse_unused_headers
from theatre.oracles.errors import ConstructTransportError
from theatre.oracles.python_callable import construct_from_callable
from theatre.oracles.remote_construct import RemoteConstruct
from theatre.oracles.wire_forms import PLAIN_PIN
from theatre.verification.template import OracleUnderTest
from theatre.verification.version_probe import NO_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedOracle:
    """What the user says about the construct.

    `folder` is where a callable's module lies. `plain`: it is a service that knows no envelope.
    `timeout_seconds` is for the calls that ask for its version, as for every other.
    """

    place: str
    construct_type: str | None
    construct_id: str
    version: str | None
    plain: bool
    folder: Path
    headers_env: Mapping[str, str]
    timeout_seconds: float

    @property
    def is_service(self) -> bool:
        """Say whether it is called by its URL."""
        if self.place.startswith(REGISTERED):
            return False
        if self.construct_type is not None:
            return self.construct_type == "http"
        return self.place.startswith(("http://", "https://"))


def oracle_under_test(
    named: NamedOracle, workspace: Workspace, run_folder: Path
) -> OracleUnderTest:
    """Return the construct with its pin; a callable is registered in `run_folder`.

    `construct:<id>` is a registered construct, `module:name` a Python callable, all else a URL. A
    version that is not given is computed for what runs here, and asked for elsewhere, by `probe`.
    Raises as the registry, the callable's finder, the adapter and `probe`, and
    ConstructTransportError for a program or callable that is to be spoken to plainly.
    """
    if named.is_service:
        service = RemoteConstruct(
            construct_id=named.construct_id, url=named.place, headers_env=named.headers_env
        )
        return _service(service, named, workspace, endpoint=named.place)
    refuse_unused_headers((), named.headers_env)
    if named.place.startswith(REGISTERED):
        registered_id = named.place.removeprefix(REGISTERED)
        construct = workspace.find_registered(registered_id, run_folder)
        if isinstance(construct, RemoteConstruct):
            return _service(construct, named, workspace, endpoint=named.place)
        return _program(construct, named)
    callable_ = construct_from_callable(named.construct_id, named.place, named.folder)
    _register(callable_, run_folder)
    return _program(callable_, named)


def _service(
    service: RemoteConstruct, named: NamedOracle, workspace: Workspace, *, endpoint: str
) -> OracleUnderTest:
    version, pin = named.version, PLAIN_PIN if named.plain else None
    if version is None and not named.plain:
        probed = probe(service, workspace, seconds=named.timeout_seconds)
        version, pin = probed.version, probed.form.pin
    return OracleUnderTest(
        construct_id=service.construct_id,
        version=version or NO_VERSION,
        adapter_type="http",
        endpoint=endpoint,
        adapter_pin=pin,
    )


def _program(construct: RegisteredConstruct, named: NamedOracle) -> OracleUnderTest:
    if named.plain:
        raise ConstructTransportError(
            f"expected a service behind a URL for --plain, got {named.place:.100}: what runs here "
            "is given the record without an envelope anyway"
        )
    return OracleUnderTest(
        construct_id=construct.construct_id,
        version=named.version or construct_version(construct),
        adapter_type="local" if construct.start_seconds is None else "http",
        endpoint=f"{REGISTERED}{construct.construct_id}",
    )


def _register(construct: RegisteredConstruct, run_folder: Path) -> None:
    """Write a callable into the run's own registry: the template then names no folder."""
    # A JSON string is a TOML string, and so is an array of them.
    lines = (
        f"[constructs.{construct.construct_id}]",
        f"argv = {json.dumps(list(construct.argv))}",
        f"folder = {json.dumps(str(construct.folder), ensure_ascii=False)}",
        f"files = {json.dumps(list(construct.files), ensure_ascii=False)}",
    )
    text = "".join(f"{line}\n" for line in lines)
    replace_durably(run_folder / CONSTRUCTS_FILE, text.encode())
