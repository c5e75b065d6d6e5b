"""Construct ids: claimed by users, confirmed, rejected and released by the operator."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.errors import DecisionError, RequestRefusedError
from backend.repositories.registered_constructs import (
    CLAIM_TERM,
    Decision,
    StoredConstruct,
    claim,
    decide,
    find_claim,
    find_owner,
    lock_construct,
    was_rejected,
)
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import Clock
from theatre.engine.errors import ProgrammeError
from theatre.engine.oracle_contract import Isolation
from theatre.engine.replay import DatasetSource
from theatre.engine.schema_registry import SchemaViolation
from theatre.engine.templates import PLAIN_ADAPTERS, ProductTheatreTemplate
from theatre.oracles.construct_registry import (
    ConstructRegistry,
    RegisteredConstruct,
    RemoteConstruct,
    local_adapter_for,
    program_of,
)
from theatre.oracles.dataset_copies import refuse_dataset_copies
from theatre.oracles.endpoints import (
    BY_URL,
    REGISTERED,
    Endpoint,
    Places,
    ReachableAdapter,
    endpoints,
    environment_for,
    isolation_for,
)
from theatre.oracles.errors import (
    ConstructUnreachableError,
    IsolationUnavailableError,
    OutboundRefusedError,
    UnknownConstructError,
)
from theatre.oracles.http import http_adapter_for
from theatre.oracles.in_process import NO_MODULES, ListedModules, PythonOracleAdapter
from theatre.oracles.isolation.canary import probe_isolation
from theatre.oracles.isolation.means import PYTHON_ALONE, Reach
from theatre.oracles.key_origins import PROVIDERS_ONLY
from theatre.oracles.outbound_policy import OutboundPolicy, resolve_addresses
from theatre.oracles.served import served_adapter_for
from theatre.oracles.wire_forms import ENVELOPES, PLAIN_PIN, WireForm
from theatre.verification.version_probe import PLAIN_ORACLE

# The ways from the service to a construct (docs/contract/construct.md §3).
#
# A template may name an `http` endpoint that the outbound policy allows, or the id of a construct
# that the operator registered, or a function of a module that the operator lists. Commands and
# files are the operator's alone.


Construct = RegisteredConstruct | RemoteConstruct


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstructAccess:
    """What the operator allows: the registry, the addresses, and the values of request headers."""

    registry: ConstructRegistry
    policy: OutboundPolicy
    environment: Mapping[str, str]
    closed: tuple[Path, ...]
    """Where answers lie, which no program may read."""
    clock: Clock
    modules: ListedModules = NO_MODULES
    """Whose functions a template may name as `python`; none unless the operator lists some."""

    @contextlib.asynccontextmanager
    async def open_adapters(
        self, template: ProductTheatreTemplate
    ) -> AsyncIterator[Mapping[str, ReachableAdapter]]:
        """Open an adapter for every construct of an episode, by id; close them all.

        Raises ProgrammeError, UnknownConstructError, ConstructTransportError, OutboundRefusedError
        for what may not be called, RequestHeadersError where the operator's headers are missing.
        """
        adapters: dict[str, ReachableAdapter] = {}
        form = PLAIN_ORACLE if template.version_pins.adapter_version == PLAIN_PIN else ENVELOPES
        async with contextlib.AsyncExitStack() as stack:
            for endpoint in endpoints(template):
                adapter = self.adapter_at(endpoint, form)
                stack.push_async_callback(adapter.aclose)
                adapters[endpoint.construct_id] = adapter
            yield adapters

    def authors(self, template: ProductTheatreTemplate) -> dict[str, str | None]:
        """Return construct → its author in the operator's registry, None where none is named."""
        return {one.construct_id: self.construct_at(one).author for one in endpoints(template)}

    def environment_of(self, template: ProductTheatreTemplate) -> JsonObject | None:
        """Return what the operator's programs among the constructs can import here. Blocks."""
        return environment_for(template, self._places())

    def isolation_of(self, template: ProductTheatreTemplate) -> JsonObject | None:
        """Return what the operator's programs among the constructs cannot reach. Blocks."""
        return isolation_for(template, self._places(), self.closed)

    def refuse_copies(self, template: ProductTheatreTemplate, datasets: DatasetSource) -> None:
        """Refuse the operator's programs that hold the ground truth. Blocks.

        Raises as `refuse_dataset_copies`.
        """
        refuse_dataset_copies(template, self._places(), datasets)

    def isolation(self, reach: Reach = PYTHON_ALONE) -> Isolation:
        """Return what programs cannot reach here, probed once a process. Blocks."""
        return _probe_isolation(self.closed, reach)

    async def require_isolated(self, wanted: Iterable[Endpoint]) -> None:
        """Raise IsolationUnavailableError for a program that could read answers here."""
        for endpoint in wanted:
            is_program = endpoint.is_registered or endpoint.adapter_type == "python"
            construct = self.construct_at(endpoint) if is_program else None
            if isinstance(construct, RegisteredConstruct):
                found = await asyncio.to_thread(self.isolation, construct.reach)
                if not found.holds:
                    raise IsolationUnavailableError(
                        "expected a machine that can isolate the operator's programs, got one "
                        "that cannot: a construct behind a URL can be called"
                    )

    def _places(self) -> Places:
        return Places(find=self.registry.find_registered, folder=self.modules.folder)

    def construct_at(self, endpoint: Endpoint) -> Construct:
        """Return the construct of an endpoint. A template of the API must never name a command.

        Raises UnknownConstructError, and ProgrammeError for another type of adapter.
        """
        if endpoint.adapter_type == "python":
            return self.modules.find(endpoint.construct_id, endpoint.place)
        if endpoint.is_registered and endpoint.adapter_type in {"local", *BY_URL}:
            return self.registry.find_registered(endpoint.place.removeprefix(REGISTERED))
        if endpoint.adapter_type == "http":
            return RemoteConstruct(construct_id=endpoint.construct_id, url=endpoint.place)
        raise ProgrammeError(
            f"expected an http endpoint or construct:<id> for {endpoint.construct_id}, got the "
            f"adapter type {endpoint.adapter_type}"
        )

    async def resolve_addresses(self, places: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Return the addresses that the hosts of URLs have now, for `check_named`."""
        return await resolve_addresses(self.policy, places)

    def check_named(
        self, wanted: Iterable[Endpoint], found: Mapping[str, Sequence[str]]
    ) -> list[SchemaViolation]:
        """Check the constructs that a request names before anything is stored; return warnings.

        Raises UnknownConstructError, and OutboundRefusedError for what could never be called, with
        messages that hold nothing of the request. What the operator registered is not judged.
        """
        doubts = []
        for endpoint in wanted:
            if endpoint.adapter_type == "python":
                self.construct_at(endpoint)
            elif endpoint.is_registered:
                self._require_registered(endpoint)
            elif endpoint.adapter_type == "http":
                doubt = self._doubt(endpoint.place, found.get(endpoint.place, ()))
                if doubt is not None:
                    doubts.append(SchemaViolation(endpoint.pointer, "endpoint-host", doubt))
        return doubts

    def _require_registered(self, endpoint: Endpoint) -> None:
        try:
            self.registry.find_registered(endpoint.place.removeprefix(REGISTERED))
        except UnknownConstructError:
            raise UnknownConstructError(
                "expected the id of a construct that the operator registered, or one with an "
                "endpoint, got another id without"
            ) from None

    def _doubt(self, place: str, addresses: Sequence[str]) -> str | None:
        try:
            return self.policy.judge_found(self.policy.check_url(place), addresses)
        except OutboundRefusedError as error:
            raise type(error)(
                "expected an endpoint that is an http or https URL of a public host, or of one "
                "that the operator allows, without credentials and fragment; got another"
            ) from None

    def _plain_adapter(self, endpoint: Endpoint, construct: Construct) -> ReachableAdapter:
        """Return the adapter of a model or a tool behind a URL of the operator's registry.

        Raises ProgrammeError for a program: over HTTP none is started that knows no envelope.
        """
        if isinstance(construct, RegisteredConstruct):
            raise ProgrammeError(
                f"expected {endpoint.construct_id} with a url, got a program: the service calls "
                f"{endpoint.adapter_type} behind URLs only"
            )
        # Imported here: the SDKs take memory and half a second, which few services need.
        from theatre.oracles.plain_adapters import Surroundings, make_plain_adapter  # noqa: PLC0415

        around = Surroundings(
            policy=lambda: self.policy,
            environment=self.environment,
            clock=self.clock,
            monotonic=time.monotonic,
            keys=PROVIDERS_ONLY,
        )
        return make_plain_adapter(endpoint, construct, around)

    def adapter_at(self, endpoint: Endpoint, form: WireForm = ENVELOPES) -> ReachableAdapter:
        """Return an adapter, which the caller must close; errors as `open_adapters`.

        Only a service elsewhere can be spoken to in another form than envelopes.
        """
        construct = self.construct_at(endpoint)
        if endpoint.adapter_type == "python":
            return PythonOracleAdapter(
                program_of(construct), clock=self.clock, monotonic=time.monotonic
            )
        if endpoint.adapter_type == "local":
            return local_adapter_for(
                program_of(construct), clock=self.clock, monotonic=time.monotonic
            )
        if endpoint.adapter_type in PLAIN_ADAPTERS:
            return self._plain_adapter(endpoint, construct)
        if isinstance(construct, RegisteredConstruct):
            return served_adapter_for(construct, clock=self.clock, monotonic=time.monotonic)
        return http_adapter_for(
            construct,
            policy=self.policy,
            environment=self.environment,
            clock=self.clock,
            monotonic=time.monotonic,
            form=form,
        )


@cache
def _probe_isolation(closed: tuple[Path, ...], reach: Reach) -> Isolation:
    return probe_isolation(closed, reach)


async def check_all_reachable(adapters: Mapping[str, ReachableAdapter]) -> None:
    """Start or connect every construct; ConstructUnreachableError names the one that fails."""
    for construct_id, adapter in adapters.items():
        try:
            await adapter.check_reachable()
        except ConstructUnreachableError as error:
            raise ConstructUnreachableError(
                f"construct {construct_id} cannot be reached: {error}"
            ) from error


_EXPECTED = {
    "confirmed": f"an id without an owner that the user has claimed in the last {CLAIM_TERM.days} "
    "days",
    "rejected": "an id that the user claims and does not own",
    "released": "an id that the user owns",
}


async def claim_construct(
    connection: AsyncConnection,
    *,
    construct_id: str,
    author: str | None,
    user_id: str,
    clock: Clock,
) -> StoredConstruct:
    """Claim a construct id for a user, until the operator has decided or the claim lapses.

    Raises RequestRefusedError where the id has an owner, or another claim that has not lapsed, and
    for a user whose claim of it was rejected lately.
    """
    await lock_construct(connection, construct_id)
    construct = StoredConstruct(
        construct_id=construct_id, author=author, created_at=clock(), confirmed_at=None
    )
    since = construct.created_at - CLAIM_TERM
    if await was_rejected(connection, construct_id, user_id=user_id, after=since):
        raise RequestRefusedError(
            "claim-rejected",
            f"the operator rejected your claim of this id in the last {CLAIM_TERM.days} days",
        )
    is_owned = await find_owner(connection, construct_id) is not None
    if is_owned or not await claim(connection, construct, user_id=user_id):
        raise RequestRefusedError("already-registered", "this construct id is taken")
    return construct


async def decide_claim(
    connection: AsyncConnection,
    construct_id: str,
    decision: Decision,
    *,
    user_id: str,
    at: datetime,
) -> None:
    """Confirm, reject or release a user's id, as the operator. Confirming twice changes nothing.

    DecisionError where there is nothing to decide.
    """
    await lock_construct(connection, construct_id)
    owner = await find_owner(connection, construct_id)
    if decision == "confirmed" and owner == user_id:
        return
    claimed = await find_claim(connection, construct_id, user_id=user_id)
    has_lapsed = claimed is not None and claimed.created_at + CLAIM_TERM <= at
    can_be = {
        "confirmed": owner is None and claimed is not None and not has_lapsed,
        "rejected": owner != user_id and claimed is not None,
        "released": owner == user_id,
    }
    if not can_be[decision]:
        raise DecisionError(f"expected {_EXPECTED[decision]}, got {construct_id}")
    await decide(connection, construct_id, decision, user_id=user_id, at=at)
