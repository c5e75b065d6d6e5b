"""The judge of the command line: which models, with which keys, and at which addresses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from theatre.api.workspace import Workspace, utc_now
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Judge, judge_providers
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.scoring.provider import criteria_scorers
from theatre.judging import JudgeUnavailableError, is_loopback, origin_fault
from theatre.judging.messages import provider_of
from theatre.scorers import load_scorers

if TYPE_CHECKING:
    from theatre.judging.model_judge import ModelJudge
    from theatre.judging.rubrics import Rubrics
    from theatre.providers import ProviderKind


@dataclass(frozen=True, slots=True)
class Provider:
    """Where a provider's key and address are set, and what stands where nothing is.

    Without a `model` there is none that everyone has: it has to be named.
    """

    key_variable: str
    origin_variable: str
    origin: str
    model: str | None


PROVIDERS: Final[MappingProxyType[ProviderKind, Provider]] = MappingProxyType(
    {
        "anthropic": Provider(
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "https://api.anthropic.com",
            "claude-sonnet-4-6",
        ),
        "openai": Provider("OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1", None),
    }
)


@contextlib.asynccontextmanager
async def open_judge(
    template: JsonObject, workspace: Workspace, *, is_needed: bool
) -> AsyncIterator[Judge | None]:
    """Open the judges of a template while there are calls to make; None where it needs none.

    Raises JudgeUnavailableError without the key of a provider that a judge is committed to, and
    for an address that may not be sent one.
    """
    provider = TheatreScoringProvider(template, load_scorers())
    if not is_needed or not provider.needs_judge:
        yield None
        return
    chosen = criteria_scorers(template).values()
    async with open_judges([entry.get("params") for entry in chosen], workspace) as judges:
        yield judges


@contextlib.asynccontextmanager
async def open_judges(params: Iterable[JsonValue], workspace: Workspace) -> AsyncIterator[Judge]:
    """Open the models of all providers that parameters of judged scorers commit to.

    Raises as `open_model`.
    """
    found = {kind for one in params for kind in judge_providers(one)}
    # A judged scorer of a plug-in may name none: it was Anthropic's before there was a choice.
    kinds = [kind for kind in PROVIDERS if kind in found] or ["anthropic"]
    async with contextlib.AsyncExitStack() as stack:
        yield _Judges(
            {kind: await stack.enter_async_context(open_model(workspace, kind)) for kind in kinds}
        )


class _Judges:
    """Asks the model of the provider whose form a request has."""

    def __init__(self, models: dict[ProviderKind, ModelJudge]) -> None:
        self._models = models

    async def ask(self, request: JsonObject) -> JsonObject:
        return await self._models[provider_of(request)].ask(request)


async def committed_by(
    rubrics: Rubrics,
    probe: Callable[[str, str, int | None], JsonObject],
    kind: ProviderKind,
    model: str,
    *,
    workspace: Workspace,
    **limits: int,
) -> JsonObject:
    """Return the committed judge, once a model has said what temperature it takes.

    `probe` makes a short request for provider, model and temperature. Raises as `open_model` and
    `probe_temperature`.
    """
    async with open_model(workspace, kind) as asked:
        temperature = await asked.probe_temperature(partial(probe, kind, model))
    return rubrics.committed(model, temperature=temperature, provider=kind, **limits)


@contextlib.asynccontextmanager
async def open_model(
    workspace: Workspace, kind: ProviderKind = "anthropic"
) -> AsyncIterator[ModelJudge]:
    """Open a model by the key and the address in the environment.

    A server on this machine may want no key. Raises JudgeUnavailableError without one for any
    other, and for an address that may not be sent one.
    """
    # Imported here: the SDK takes a second to import, which only runs with a judge should pay.
    from theatre.judging.model_judge import open_model_judge  # noqa: PLC0415  # see above

    provider = PROVIDERS[kind]
    origin = (workspace.environment.get(provider.origin_variable) or provider.origin).rstrip("/")
    key = workspace.environment.get(provider.key_variable)
    if not key and not (kind == "openai" and is_loopback(origin)):
        raise JudgeUnavailableError(
            f"expected an API key in {provider.key_variable} for the judge, got none; set it, or "
            "do without a model that judges"
        )
    fault = origin_fault(origin)
    if fault is not None:
        raise JudgeUnavailableError(
            f"expected an https address without name and query in {provider.origin_variable}, got "
            f"{fault}"
        )
    opened = open_model_judge(
        kind,
        origin,
        api_key=key or None,
        key_variable=provider.key_variable,
        clock=utc_now,
        sleep=asyncio.sleep,
    )
    async with opened as judge:
        yield judge
