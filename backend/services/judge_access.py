"""The judges that the operator has keys for, what a call of each can cost, and what it did cost."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

from backend.errors import SettingsError
from backend.repositories.judge_ledger import Settlement
from backend.settings import Settings, variable
from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object
from theatre.engine.errors import MissingExtraError, ParseError, ProgrammeError
from theatre.judging.messages import provider_of
from theatre.providers import ProviderKind, ProviderReply

ADDED_TOKENS: Final = 1024
"""What a provider may put around a request: roles, and how it asks for the committed schema."""
PER_MILLION: Final = 1_000_000
_OK = 200


class Price(BaseModel):
    """What a million tokens cost, in micro-units of the operator's currency."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    input: int = Field(ge=0, le=10**12)
    output: int = Field(ge=0, le=10**12)


class Cost(NamedTuple):
    """An amount, in micro-units where the model has a price, else in tokens."""

    unit: str
    amount: int


@dataclass(frozen=True, slots=True)
class Provider:
    """Where a provider is asked, and with which key; a server on this machine may want none."""

    origin: str
    key: SecretStr | None


_PRICES = TypeAdapter(dict[ProviderKind, dict[str, Price]])


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAccess:
    """The providers that the operator has keys for, and what their models cost."""

    providers: Mapping[ProviderKind, Provider]
    prices: Mapping[ProviderKind, Mapping[str, Price]]

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Read what the settings name; SettingsError where prices or packages lack."""
        providers: dict[ProviderKind, Provider] = {}
        if settings.anthropic_api_key is not None:
            providers["anthropic"] = Provider(
                settings.anthropic_base_url, settings.anthropic_api_key
            )
        if settings.openai_base_url is not None:
            providers["openai"] = Provider(settings.openai_base_url, settings.openai_api_key)
        if any(find_spec(kind) is None for kind in providers):
            raise SettingsError(f"for judges: {MissingExtraError('models')}")
        return cls(providers=providers, prices=_read_prices(settings.judge_prices))

    def cost(self, request: JsonObject, *, input_tokens: int, output_tokens: int) -> Cost:
        """Return what a call costs that takes so many tokens; fractions are rounded up."""
        price = self.prices.get(provider_of(request), {}).get(str(request["model"]))
        if price is None:
            return Cost("tokens", input_tokens + output_tokens)
        parts = input_tokens * price.input + output_tokens * price.output
        return Cost("micros", -(-parts // PER_MILLION))

    def most(self, request: JsonObject) -> Cost:
        """Return the most that a call can cost: a token of a text has at least one byte.

        ProgrammeError for a request without a limit to its answer.
        """
        limit = request.get("max_tokens")
        if isinstance(limit, bool) or not isinstance(limit, int | float) or limit != int(limit):
            raise ProgrammeError("expected max_tokens in what a judge is asked, got no number")
        sent = len(canonical_bytes(request)) + ADDED_TOKENS
        return self.cost(request, input_tokens=sent, output_tokens=int(limit))

    def settlement(self, request: JsonObject, reply: ProviderReply, most: int) -> Settlement:
        """Return what a call cost: nothing where none was made or it was refused.

        The maximum where the provider counted no tokens, or may have answered what never arrived.
        """
        if reply.status is None:
            return Settlement(most, "not-counted") if reply.sent else Settlement(0, "not-sent")
        if reply.status != _OK:
            return Settlement(0, "refused")
        counted = _tokens_of(reply.body)
        if counted is None:
            return Settlement(most, "not-counted")
        spent = self.cost(request, input_tokens=counted[0], output_tokens=counted[1]).amount
        if spent > most:
            return Settlement(most, "above-maximum")
        return Settlement(spent, "counted")


def _read_prices(path: Path | None) -> Mapping[ProviderKind, Mapping[str, Price]]:
    if path is None:
        return {}
    try:
        return _PRICES.validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, tomllib.TOMLDecodeError) as error:
        names = error.error_count() if isinstance(error, ValidationError) else 1
        raise SettingsError(
            f"expected in {variable('judge_prices')} a TOML file with whole numbers `input` and "
            f'`output` for [anthropic."MODEL"] or [openai."MODEL"], got {names} fault(s): '
            f"{type(error).__name__}"
        ) from error


def _tokens_of(body: str | None) -> tuple[int, int] | None:
    """Return the input and output tokens that a provider counted; None where it did not."""
    try:
        usage = parse_object((body or "").encode()).get("usage")
    except (ParseError, UnicodeEncodeError):
        return None
    if not isinstance(usage, dict):
        return None
    # A prompt that a provider keeps is counted apart, and costs something, too.
    kept = ("cache_creation_input_tokens", "cache_read_input_tokens")
    for asked, said in (("input_tokens", "output_tokens"), ("prompt_tokens", "completion_tokens")):
        counts = [usage.get(asked), usage.get(said), *(usage.get(one) or 0 for one in kept)]
        whole = [int(one) for one in counts if isinstance(one, int | float) and one >= 0]
        if len(whole) == len(counts):
            return whole[0] + sum(whole[2:]), whole[1]
    return None
