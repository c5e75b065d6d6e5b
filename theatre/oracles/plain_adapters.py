"""Adapters for constructs that know no envelope. Imported by the runs that need one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import ValidationError

from theatre.engine.clock import Clock
from theatre.engine.errors import MissingExtraError, ProgrammeError
from theatre.engine.oracle_contract import pinned_version
from theatre.engine.schema_registry import model_message
from theatre.oracles.command import CommandAdapter, CommandSettings, ContainerAdapter
from theatre.oracles.construct_registry import (
    RegisteredConstruct,
    RemoteConstruct,
    program_of,
    source_of,
)
from theatre.oracles.endpoints import Construct, Endpoint, ReachableAdapter
from theatre.oracles.errors import ConstructTransportError, RequestHeadersError
from theatre.oracles.key_origins import KeyOrigins, headers_of
from theatre.oracles.outbound_policy import OutboundPolicy
from theatre.oracles.plain_call import PlainSettings
from theatre.oracles.wire_forms import RequestHeaders

if TYPE_CHECKING:
    from theatre.providers import ProviderKind

_SettingsT = TypeVar("_SettingsT", bound=PlainSettings)


class Surroundings(NamedTuple):
    """What an adapter takes of where it runs; `policy` is made when a URL is called."""

    policy: Callable[[], OutboundPolicy]
    environment: Mapping[str, str]
    clock: Clock
    monotonic: Callable[[], float]
    keys: KeyOrigins


def make_plain_adapter(
    endpoint: Endpoint, construct: Construct, around: Surroundings
) -> ReachableAdapter:
    """Return the adapter of an endpoint that is asked by its settings; the caller closes it.

    Raises ProgrammeError for settings that the adapter does not take, RequestHeadersError for a
    key that is not there, KeyNotAllowedError for one that may not go to the construct's URL,
    ConstructTransportError for a construct that is reached in another way, MissingExtraError
    without the SDK that it needs, and what `OutboundPolicy` refuses.
    """
    kind = endpoint.adapter_type
    times: Any = {"clock": around.clock, "monotonic": around.monotonic}
    version = pinned_version(kind, endpoint.place, endpoint.settings)
    if kind == "container":
        settings = _settings(CommandSettings, endpoint)
        return ContainerAdapter(endpoint.place, settings, version=version, **times)
    if kind == "command":
        program = program_of(construct)
        return CommandAdapter(
            source_of(_on_stdin(program)).bind,
            _settings(CommandSettings, endpoint),
            endpoint.settings,
            limits=program.limits,
            reach=program.reach,
            **times,
        )
    _require_sdk(kind)
    if kind == "mcp":
        return _tool_adapter(endpoint, construct, around, version, times)
    from theatre.oracles.models import ModelAdapter, ModelSettings  # noqa: PLC0415 - the SDKs of models

    if not isinstance(construct, RemoteConstruct):
        raise ConstructTransportError(f"expected {endpoint.construct_id} with a url, got a program")
    provider: ProviderKind = "anthropic" if kind == "anthropic" else "openai"
    return ModelAdapter(
        provider,
        construct.url,
        _settings(ModelSettings, endpoint),
        version=version,
        headers=_headers(endpoint, construct, around),
        policy=around.policy(),
        **times,
    )


def _tool_adapter(
    endpoint: Endpoint,
    construct: Construct,
    around: Surroundings,
    version: str,
    times: Any,  # noqa: ANN401 - clock and monotonic
) -> ReachableAdapter:
    from theatre.oracles.mcp_tool import ProgramWay, ServerWay, ToolAdapter, ToolSettings, WebWay  # noqa: PLC0415 - the SDK of MCP

    settings = _settings(ToolSettings, endpoint)
    way: ServerWay
    if isinstance(construct, RemoteConstruct):
        headers = _headers(endpoint, construct, around)
        way = WebWay(construct.url, version=version, headers=headers, policy=around.policy())
    else:
        program = _on_stdin(construct)
        way = ProgramWay(
            source_of(program).bind, endpoint.settings, limits=program.limits, reach=program.reach
        )
    return ToolAdapter(way, settings, **times)


def _require_sdk(kind: str) -> None:
    """Raise MissingExtraError before an import that would end with a traceback."""
    if find_spec(kind) is None:
        raise MissingExtraError("mcp" if kind == "mcp" else "models")


def _settings(form: type[_SettingsT], endpoint: Endpoint) -> _SettingsT:
    try:
        return form.model_validate(endpoint.settings)
    except ValidationError as error:
        mistakes = "; ".join(
            f"{'/'.join(map(str, one['loc']))}: {model_message(one)}" for one in error.errors()
        )
        raise ProgrammeError(
            f"expected adapter_settings of {endpoint.adapter_type} for {endpoint.construct_id}, "
            f"got: {mistakes}"
        ) from error


def _headers(
    endpoint: Endpoint, construct: RemoteConstruct, around: Surroundings
) -> RequestHeaders:
    """Return the headers of the registry or the command line, else the key that is named."""
    variable = endpoint.settings.get("key_env")
    if construct.headers_env or not isinstance(variable, str):
        return headers_of(construct, around.environment, around.keys)
    around.keys.require([variable], construct.url, endpoint.construct_id)
    key = around.environment.get(variable)
    if not key:
        raise RequestHeadersError(
            f"expected the key of {endpoint.construct_id} in the environment variable {variable}, "
            f"got none; export {variable}=… and run again"
        )
    is_anthropic = endpoint.adapter_type == "anthropic"
    try:
        return RequestHeaders(
            {"X-Api-Key": key} if is_anthropic else {"Authorization": f"Bearer {key}"}
        )
    except RequestHeadersError as error:
        raise RequestHeadersError(f"{error}; correct the value of {variable}") from error


def _on_stdin(program: RegisteredConstruct) -> RegisteredConstruct:
    if program.start_seconds is not None:
        raise ConstructTransportError(
            f"expected {program.construct_id} to speak on stdin, got one that serves HTTP: its "
            "adapter is http"
        )
    return program
