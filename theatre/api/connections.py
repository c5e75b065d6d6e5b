"""Opens the way to every construct of a theatre, and closes it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from theatre.api.commitments import name_variable_in_errors
from theatre.api.workspace import Workspace, utc_now
from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object
from theatre.engine.oracle_contract import RECORDED_ADAPTERS
from theatre.engine.templates import PLAIN_ADAPTERS, ProductTheatreTemplate, VersionPins
from theatre.oracles.construct_registry import RegisteredConstruct, local_adapter_for, program_of
from theatre.oracles.endpoints import (
    REGISTERED,
    Construct,
    Endpoint,
    Places,
    ReachableAdapter,
    construct_at,
    endpoints,
    refuse_unused_headers,
)
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.in_process import (
    CannedAnswers,
    FinishedAnswers,
    PythonOracleAdapter,
    RecordedAnswers,
    RecordedOracleAdapter,
    canned_adapter,
)
from theatre.oracles.wire_forms import ENVELOPES, PLAIN_PIN
from theatre.verification.version_probe import PLAIN_ORACLE

if TYPE_CHECKING:
    from theatre.oracles.mcp_tool import ToolAdapter

# Baselines: another construct through the same measurement, for comparison.


def replace_construct(template: JsonObject, construct_id: str, *, version: str) -> JsonObject:
    """Return the template of one construct for a registered other one; all else stays.

    What changes is the pin, and the three places that name the construct. The commitment hash
    changes with them, and so does the draw of the holdout.
    """
    changed: Any = parse_object(canonical_bytes(template))
    changed["version_pins"]["constructs"] = {construct_id: version}
    for step in changed["resolution_programme"]:
        if "construct_id" in step:
            step["construct_id"] = construct_id
    config = changed["product_theatre_config"]
    config["construct_under_test"] = construct_id
    config["adapter_endpoint"] = f"{REGISTERED}{construct_id}"
    return parse_object(canonical_bytes(changed))


MOCK = "mock"


@contextlib.asynccontextmanager
async def open_adapters(
    template: ProductTheatreTemplate,
    workspace: Workspace,
    template_folder: Path,
    *,
    headers_env: Mapping[str, str],
    answers: CannedAnswers | None = None,
    recorded: RecordedAnswers | None = None,
) -> AsyncIterator[Mapping[str, ReachableAdapter]]:
    """Open an adapter, by construct id, for every construct of an episode; close them all.

    `answers` are those of constructs whose adapter is `mock`, `recorded` those of one that another
    program asks.

    Nothing is started or connected yet. Raises what `construct_at` raises, and
    OutboundPolicyError, OutboundRefusedError and RequestHeadersError for what cannot be called.
    """
    places = workspace.places(template_folder, headers_env)
    wanted = endpoints(template)
    refuse_unused_headers(wanted, headers_env)
    adapters: dict[str, ReachableAdapter] = {}
    async with contextlib.AsyncExitStack() as stack:
        for endpoint in wanted:
            with name_variable_in_errors():
                if endpoint.adapter_type == MOCK:
                    adapters[endpoint.construct_id] = canned_adapter(
                        endpoint.construct_id, answers or {}, clock=utc_now
                    )
                    continue
                if endpoint.adapter_type in RECORDED_ADAPTERS:
                    adapters[endpoint.construct_id] = RecordedOracleAdapter(
                        endpoint.adapter_type,
                        FinishedAnswers({}) if recorded is None else recorded,
                        clock=utc_now,
                    )
                    continue
                construct = construct_at(endpoint, places)
                adapter = _adapter(endpoint, construct, workspace, template.version_pins)
            stack.push_async_callback(adapter.aclose)
            adapters[endpoint.construct_id] = adapter
        yield adapters


def construct_authors(
    template: ProductTheatreTemplate, workspace: Workspace, template_folder: Path
) -> dict[str, str | None]:
    """Return construct → its author in `constructs.toml`; None for one who is not named there.

    Raises what `construct_at` raises.
    """
    places = workspace.places(template_folder)
    return {
        endpoint.construct_id: (
            None
            if endpoint.adapter_type in {MOCK, *RECORDED_ADAPTERS}
            else construct_at(endpoint, places).author
        )
        for endpoint in endpoints(template)
    }


async def check_all_reachable(adapters: Mapping[str, ReachableAdapter]) -> None:
    """Start or connect every construct; raises as `ReachableAdapter`, naming the construct."""
    for construct_id, adapter in adapters.items():
        try:
            with name_variable_in_errors():
                await adapter.check_reachable()
        except ConstructUnreachableError as error:
            raise ConstructUnreachableError(
                f"construct {construct_id} cannot be reached: {error}"
            ) from error


async def find_tools(endpoint: Endpoint, places: Places, workspace: Workspace) -> dict[str, str]:
    """Return each tool that the MCP server of an endpoint lists, and its hash.

    The server is started or connected; no tool is called. Raises what `construct_at`,
    `make_plain_adapter` and `ToolAdapter.tools` raise.
    """
    # Imported here: the SDK takes half a second, which only its runs should pay.
    from theatre.api.http_adapters import surroundings  # noqa: PLC0415  # see above
    from theatre.oracles.plain_adapters import make_plain_adapter  # noqa: PLC0415  # see above

    # What the tool is pinned to is asked for here, and so need not be known.
    asked = replace(endpoint, settings={"tool_sha256": "0" * 64, **endpoint.settings})
    with name_variable_in_errors():
        adapter = make_plain_adapter(asked, construct_at(asked, places), surroundings(workspace))
        try:
            return await cast("ToolAdapter", adapter).tools()
        finally:
            await adapter.aclose()


def make_adapter(construct: Construct, workspace: Workspace) -> ReachableAdapter:
    """Return the adapter of a registered construct; the caller closes it.

    Raises what `make_http_adapter` raises.
    """
    if isinstance(construct, RegisteredConstruct) and construct.start_seconds is None:
        return local_adapter_for(construct, clock=utc_now, monotonic=time.monotonic)
    from theatre.api.http_adapters import make_http_adapter  # noqa: PLC0415  # as below

    with name_variable_in_errors():
        return make_http_adapter(construct, workspace)


def _adapter(
    endpoint: Endpoint, construct: Construct, workspace: Workspace, pins: VersionPins
) -> ReachableAdapter:
    if endpoint.adapter_type == "http":
        # Imported here: the client costs start-up time that a run of local programs need not pay.
        from theatre.api.http_adapters import make_http_adapter  # noqa: PLC0415  # see above

        is_plain = pins.adapter_version == PLAIN_PIN
        return make_http_adapter(construct, workspace, PLAIN_ORACLE if is_plain else ENVELOPES)
    if endpoint.adapter_type in PLAIN_ADAPTERS:
        # Imported here: the SDKs take half a second, which only their runs should pay.
        from theatre.api.http_adapters import surroundings  # noqa: PLC0415  # see above
        from theatre.oracles.plain_adapters import make_plain_adapter  # noqa: PLC0415  # see above

        return make_plain_adapter(endpoint, construct, surroundings(workspace))
    program = program_of(construct)
    if endpoint.adapter_type == "python":
        return PythonOracleAdapter(program, clock=utc_now, monotonic=time.monotonic)
    return local_adapter_for(program, clock=utc_now, monotonic=time.monotonic)
