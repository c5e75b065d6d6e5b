"""Where a template says its constructs are, and which constructs those are.

Nothing is opened here: a template names an endpoint for each construct, and an endpoint is a
program, a callable or a URL (docs/contract/template.md §4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from theatre.engine.errors import ProgrammeError
from theatre.engine.oracle_contract import OracleAdapter
from theatre.engine.resolution import INVOCATION
from theatre.engine.schema_registry import json_pointer
from theatre.engine.templates import ProductTheatreTemplate
from theatre.oracles.construct_registry import (
    RegisteredConstruct,
    RemoteConstruct,
    construct_from_argv,
    program_of,
)
from theatre.oracles.errors import (
    ConstructFilesError,
    ConstructTransportError,
    RequestHeadersError,
)
from theatre.oracles.in_process import construct_from_callable

REGISTERED = "construct:"

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
            adapter_type, place = own.adapter_type, own.endpoint
            pointer = json_pointer("product_theatre_config", "construct_endpoints", construct_id)
        else:
            is_meant = construct_id == config.construct_under_test or len(ids) == 1
            adapter_type = config.adapter_type
            place = (config.adapter_endpoint if is_meant else None) or f"{REGISTERED}{construct_id}"
        return Endpoint(
            construct_id=construct_id, adapter_type=adapter_type, place=place, pointer=pointer
        )

    return tuple(endpoint(construct_id) for construct_id in ids)


def refuse_unused_headers(wanted: Iterable[Endpoint], headers_env: Mapping[str, str]) -> None:
    """Raise RequestHeadersError for headers that no construct would be sent."""
    if headers_env and not any(e.adapter_type == "http" and not e.is_registered for e in wanted):
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
    match endpoint.adapter_type:
        case "python":
            return _callable_at(endpoint, places.folder)
        case "local" if endpoint.is_registered:
            return program_of(places.find(place.removeprefix(REGISTERED)))
        case "local":
            return construct_from_argv(construct_id, place, places.folder)
        case "http" if endpoint.is_registered:
            return places.find(place.removeprefix(REGISTERED))
        case "http":
            return RemoteConstruct(
                construct_id=construct_id, url=place, headers_env=places.headers_env
            )
        case other:
            raise ProgrammeError(
                f"expected adapter_type http, local or python for {construct_id}, got {other}: "
                "only a real construct can be run"
            )


def _callable_at(endpoint: Endpoint, folder: Path) -> RegisteredConstruct:
    try:
        return construct_from_callable(endpoint.construct_id, endpoint.place, folder)
    except ConstructFilesError as error:
        if not endpoint.is_registered:
            raise
        # `construct:name` may be a callable of a module of that name, but there is none.
        raise ConstructTransportError(
            f"expected module:name for the python construct {endpoint.construct_id}, got "
            f"{endpoint.place}: the adapter of a registered construct is local or http"
        ) from error


# What a composition root asks of an adapter before the first call.


@runtime_checkable
class ReachableAdapter(OracleAdapter, Protocol):
    """An adapter that can tell beforehand whether anybody would answer."""

    async def check_reachable(self) -> None:
        """Start or connect the construct, and ask it nothing.

        Raises ConstructUnreachableError where that cannot be done, OutboundRefusedError where
        it may not be done, and ConstructFilesError where a program's files cannot be read.
        """
