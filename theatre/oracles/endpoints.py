"""Where a template says its constructs are, which those are, and what the ones that run here find.

Nothing is opened here: a template names an endpoint for each construct, and an endpoint is a
program, a callable or a URL (docs/contract/template.md §4). A version binds a construct's own
files; the environment names what lies beyond them (docs/adr/0172, 0178).
"""

import hashlib
import platform
import shutil
import site
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import Distribution
from pathlib import Path
from typing import Protocol, runtime_checkable

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.errors import ProgrammeError, TheatreError
from theatre.engine.oracle_contract import OracleAdapter, pinned_version, weakest_isolation
from theatre.engine.resolution import INVOCATION
from theatre.engine.schema_registry import json_pointer
from theatre.engine.templates import PLAIN_ADAPTERS, ProductTheatreTemplate
from theatre.oracles.construct_files import PYTHON, file_hash
from theatre.oracles.construct_registry import (
    RegisteredConstruct,
    RemoteConstruct,
    construct_from_argv,
    construct_version,
    program_of,
)
from theatre.oracles.errors import ConstructFilesError, ConstructTransportError, RequestHeadersError
from theatre.oracles.in_process import construct_from_callable
from theatre.oracles.isolation.canary import probe_isolation

REGISTERED = "construct:"
BY_URL = frozenset({"http", "openai", "anthropic", "mcp"})
"""The adapter types whose endpoint may be a URL."""

Construct = RegisteredConstruct | RemoteConstruct
FindConstruct = Callable[[str], Construct]
"""Returns a registered construct by its id; raises UnknownConstructError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One construct of a template: how to reach it, and what the template says of the place."""

    construct_id: str
    adapter_type: str
    place: str
    pointer: str = ""
    """Where a template says so, as a JSON Pointer."""
    settings: JsonObject = field(default_factory=dict)
    """What is asked of a construct that knows no envelope, as the template has it."""

    @property
    def is_registered(self) -> bool:
        """Return whether the place is an id in a registry."""
        return self.place.startswith(REGISTERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What an endpoint is looked up in.

    `folder` is where paths and modules begin; `headers_env` (header → variable) is for the
    constructs whose URL is in the template itself.
    """

    find: FindConstruct
    folder: Path
    headers_env: Mapping[str, str] = field(default_factory=dict)


def endpoints(template: ProductTheatreTemplate) -> tuple[Endpoint, ...]:
    """Return an endpoint for every construct that an episode calls.

    That is its own entry in `construct_endpoints`, else `adapter_endpoint` for the construct
    under test, else its id in a registry.
    """
    config = template.product_theatre_config
    invoked = [s.construct_id for s in template.programme if s.type == INVOCATION]
    ids = dict.fromkeys([name for name in invoked if name is not None])
    ids |= dict.fromkeys(config.construct_chain)

    def endpoint(construct_id: str) -> Endpoint:
        own = config.construct_endpoints.get(construct_id)
        pointer = "/product_theatre_config/adapter_endpoint"
        if own is not None:
            adapter_type, place, settings = own.adapter_type, own.endpoint, own.adapter_settings
            pointer = json_pointer("product_theatre_config", "construct_endpoints", construct_id)
        else:
            is_meant = construct_id == config.construct_under_test or len(ids) == 1
            adapter_type = config.adapter_type
            settings = config.adapter_settings if is_meant else {}
            place = (config.adapter_endpoint if is_meant else None) or f"{REGISTERED}{construct_id}"
        return Endpoint(
            construct_id=construct_id,
            adapter_type=adapter_type,
            place=place,
            pointer=pointer,
            settings=settings,
        )

    return tuple(endpoint(construct_id) for construct_id in ids)


def refuse_unused_headers(wanted: Iterable[Endpoint], headers_env: Mapping[str, str]) -> None:
    """Raise RequestHeadersError for headers that no construct would be sent."""
    if headers_env and not any(e.adapter_type in BY_URL and not e.is_registered for e in wanted):
        raise RequestHeadersError(
            f"expected a URL in the template to send {', '.join(headers_env)} to, got none: "
            "a registered construct has its headers_env"
        )


def construct_at(endpoint: Endpoint, places: Places) -> Construct:
    """Return the construct that an endpoint stands for.

    Raises UnknownConstructError, ConstructTransportError, ConstructRegistryError and
    ConstructFilesError as those who know registries, argvs and callables, and ProgrammeError
    for an adapter type that reaches no construct.
    """
    construct_id, place = endpoint.construct_id, endpoint.place
    kind = endpoint.adapter_type
    is_program = kind in {"local", "command"} or (kind == "mcp" and place.startswith("["))
    if endpoint.is_registered and kind in {"local", "command"}:
        return program_of(places.find(place.removeprefix(REGISTERED)))
    if endpoint.is_registered and kind in BY_URL:
        return places.find(place.removeprefix(REGISTERED))
    if is_program:
        return construct_from_argv(construct_id, place, places.folder)
    if kind in BY_URL:
        return RemoteConstruct(construct_id=construct_id, url=place, headers_env=places.headers_env)
    match kind:
        case "python":
            try:
                return construct_from_callable(construct_id, place, places.folder)
            except ConstructFilesError as error:
                if not endpoint.is_registered:
                    raise
                # `construct:name` may be a callable of a module of that name, but there is none.
                raise ConstructTransportError(
                    f"expected module:name for the python construct {construct_id}, got {place}: "
                    "the adapter of a registered construct is local or http"
                ) from error
        case "container":
            # What runs in there is no file of this machine: it is as far as a URL.
            return RemoteConstruct(construct_id=construct_id, url=place)
        case other:
            raise ProgrammeError(
                f"expected an adapter_type of a construct for {construct_id}, got {other}: "
                "only a real construct can be run"
            )


def version_at(endpoint: Endpoint, construct: Construct) -> str | None:
    """Return the version of a construct as far as it is known here, 64 hex digits.

    None where only the service itself can say it. Reads the files of a program, and raises
    ConstructFilesError as `construct_version`.
    """
    program = construct_version(construct) if isinstance(construct, RegisteredConstruct) else None
    if endpoint.adapter_type in PLAIN_ADAPTERS:
        place = program or endpoint.place
        return pinned_version(endpoint.adapter_type, place, endpoint.settings)
    return program


# What a composition root asks of an adapter before the first call.


@runtime_checkable
class ReachableAdapter(OracleAdapter, Protocol):
    """An adapter that can tell beforehand whether a construct would answer."""

    async def check_reachable(self) -> None:
        """Start or connect the construct, and ask it nothing.

        Raises ConstructUnreachableError where that cannot be done, OutboundRefusedError where
        it may not be done, and ConstructFilesError where a program's files cannot be read.
        """


# What a program that runs here can import, and what is closed to it.


def environment_for(template: ProductTheatreTemplate, places: Places) -> JsonObject | None:
    """Return what runs the constructs that run here: `{python}` with what it sees, and programs.

    None where there is no such construct: what a remote one, or a program among its own files,
    runs with cannot be seen here. Reads files the first time: not on an event loop. Raises
    ConstructFilesError for a program that cannot be read.
    """
    runners = {one.argv[0] for one in local_programs(template, places)}
    python = python_environment() if PYTHON in runners else None
    # A version binds the name `node` alone, and anything on PATH can be called so.
    named = ((name, shutil.which(name)) for name in runners - {PYTHON} if "/" not in name)
    found = [(name, _program_hash(Path(path).resolve())) for name, path in sorted(named) if path]
    if not found:
        return python
    words = [f"{name} {sha256[:12]}" for name, sha256 in found]
    programs: list[JsonValue] = [[*one] for one in found]
    bound: JsonObject = {"programs": programs, "python": python and python["environment_hash"]}
    return {
        "environment_hash": canonical_sha256(bound),
        "interpreter": ", ".join([str(python["interpreter"]), *words] if python else words),
        "platform": platform.platform(),
    }


def _program_hash(path: Path) -> str:
    try:
        facts = path.stat()
    except OSError as error:
        raise ConstructFilesError(f"expected to read {path}, got: {error.strerror}") from error
    return _hash_once(path, facts.st_ino, facts.st_size, facts.st_mtime_ns)


@cache
def _hash_once(path: Path, *_: int) -> str:
    """Hash a file as it is now, by its path and what tells that it changed: Node has 100 MB."""
    return file_hash(path)


def isolation_for(
    template: ProductTheatreTemplate, places: Places, closed: Sequence[Path]
) -> JsonObject | None:
    """Return what is closed to the constructs that run here now, the weakest of them.

    None where there is no such construct. Blocks for a start of Python or two.
    """
    reaches = {one.reach for one in local_programs(template, places)}
    tried = [probe_isolation(closed, reach) for reach in reaches]
    return weakest_isolation(tried).as_document() if tried else None


@cache
def python_environment() -> JsonObject:
    """Return hash, interpreter and platform of what a program under `{python}` sees.

    `environment_hash` is the SHA-256 over the canonical bytes of the sorted [name, version,
    SHA-256 of RECORD] of the distributions in the interpreter's own folders; null stands for a
    RECORD that there is none of. Computed once a process.
    """
    folders = [Path(folder) for folder in dict.fromkeys(site.getsitepackages())]
    found: list[JsonValue] = []
    for folder in folders:
        for info in (*folder.glob("*.dist-info"), *folder.glob("*.egg-info")):
            about, record = Distribution.at(info), info / "RECORD"
            is_recorded = record.is_file()
            digest = hashlib.sha256(record.read_bytes()).hexdigest() if is_recorded else None
            found.append([about.name, about.version, digest])
    return {
        "environment_hash": canonical_sha256(sorted(found, key=repr)),
        "interpreter": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
    }


def local_programs(template: ProductTheatreTemplate, places: Places) -> list[RegisteredConstruct]:
    """Return the constructs that run here; what cannot be found is the run's to refuse."""
    found = []
    for endpoint in endpoints(template):
        with suppress(TheatreError):
            construct = construct_at(endpoint, places)
            if isinstance(construct, RegisteredConstruct):
                found.append(construct)
    return found
