"""The settings of the service: environment variables with the prefix `ECHELON_`, read once.

Source: docs/contract/service.md §4. The table in docs/operations.md is held to this class.
"""

import os
import re
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from backend.errors import SettingsError
from theatre.engine.schema_registry import model_message
from theatre.judging import is_loopback, origin_fault

MEBIBYTE = 1024 * 1024
_POSTGRESQL = frozenset({"postgresql", "postgres"})
_SEPARATORS = {
    "dataset_roots": os.pathsep,
    "clone_roots": os.pathsep,
    "python_modules": ",",
    "outbound_allow": ",",
    "github_token_for": ",",
    "trusted_proxies": ",",
}
_EVIDENCE = frozenset({"file", "s3"})
_HTTP = frozenset({"http", "https"})
_REPOSITORIES = re.compile(r"[A-Za-z0-9_-]+/(?:\*|[A-Za-z0-9_.-]+)", re.ASCII)


class Settings(BaseSettings):
    """One frozen set of settings. What a variable means stands in its description."""

    model_config = SettingsConfigDict(
        env_prefix="ECHELON_",
        env_ignore_empty=True,
        frozen=True,
        extra="ignore",
        hide_input_in_errors=True,
    )

    home: Path = Field(
        default=Path(".echelon"),
        description="folder of the embedded database, the keys and the command line's store",
    )
    mode: Literal["embedded", "production"] = Field(
        default="embedded",
        description="`production` starts only with a database and signing keys that are given",
    )
    database_url: SecretStr | None = Field(
        default=None,
        description="`postgresql://user:password@host/database`, in UTF8; without it, the embedded "
        "database",
    )
    migration_url: SecretStr | None = Field(
        default=None,
        description="the same database as the role that owns its tables: the service migrates it "
        "when it starts; without it, the database has to be at the newest revision",
    )
    evidence_url: str | None = Field(
        default=None,
        description="where evidence bundles are kept, `file:///…` or `s3://bucket/prefix`; "
        "without it, a folder below `ECHELON_HOME`",
    )
    dataset_roots: Annotated[tuple[Path, ...], NoDecode] = Field(
        default=(),
        description="folders in which templates may name ground truth, separated like `PATH`",
    )
    constructs: Path | None = Field(default=None, description="the operator's `constructs.toml`")
    python_modules: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Python modules whose public functions every user may run as constructs, "
        "isolated as programs of `constructs.toml`, separated by commas",
    )
    python_folder: Path | None = Field(
        default=None, description="the folder in which these modules lie"
    )
    outbound_allow: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="hosts or networks that constructs may have beside public addresses, "
        "separated by commas",
    )
    clone_roots: Annotated[tuple[Path, ...], NoDecode] = Field(
        default=(),
        description="folders in which verifications may name local clones, separated like `PATH`",
    )
    github_api_url: str = Field(
        default="https://api.github.com",
        description="root of the GitHub REST interface that verifications read pull requests from",
    )
    github_token_for: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="repositories, `owner/name` or `owner/*`, that are read with the worker's "
        "`GITHUB_TOKEN`, separated by commas; every user may have them read",
    )
    jwt_keys: Path | None = Field(
        default=None,
        description="file with the keys that sign tokens; the embedded mode makes its own",
    )
    trust: Path | None = Field(
        default=None,
        description="`trust.json`, what readers know of the keys that sign certificates and log; "
        "the embedded mode makes its own",
    )
    issuer_key: str | None = Field(
        default=None,
        description="the key that signs certificates, as a URI of securesystemslib: "
        "`file2:/path`, `awskms:…`, `gcpkms:…`, `hsm:…`",
    )
    log_key: str | None = Field(
        default=None, description="the key that signs the log, as a URI of securesystemslib"
    )
    issuer: str = Field(
        default="local",
        min_length=1,
        max_length=200,
        description="the name on certificates and in tokens",
    )
    worker_in_api: bool = Field(
        default=True, description="whether the process that serves HTTP also runs theatres"
    )
    runs_at_a_time: int = Field(
        default=2, ge=1, le=64, description="how many theatres one process runs at a time"
    )
    lease_seconds: float = Field(
        default=20.0,
        ge=0.5,
        le=3600,
        description="seconds after which a worker that was not heard of has lost its runs to "
        "others; the same for all processes of a database",
    )
    drain_seconds: float = Field(
        default=20.0,
        ge=0,
        le=3600,
        description="seconds that the episode under way has to end in when its worker is stopped "
        "or its run cancelled",
    )
    max_body_bytes: int = Field(
        default=MEBIBYTE,
        ge=1024,
        le=64 * MEBIBYTE,
        description="the largest request body, datasets aside",
    )
    body_seconds: float = Field(
        default=30.0,
        gt=0,
        le=3600,
        description="seconds in which a whole request body has to be there, datasets aside",
    )
    registration: Literal["open", "invite", "closed"] | None = Field(
        default=None,
        description="who may register over HTTP: `open` anybody, `invite` who has an invite of "
        "the operator, `closed` no one; without it, `closed` in the mode `production`, else `open`",
    )
    trusted_proxies: Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode] = Field(
        default=(),
        description="networks of the proxies in front, separated by commas: from these peers alone "
        "`X-Forwarded-For` or `Forwarded` says whose request it is",
    )
    connections: int = Field(
        default=1000,
        ge=8,
        le=100_000,
        description="how many connections of clients one process keeps; fewer where its limit of "
        "open files is less than these and 128 more",
    )
    head_seconds: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="seconds in which the head of a request has to be there, from the connection "
        "or the answer before on",
    )
    requests_per_minute: int = Field(
        default=60_000,
        ge=1,
        le=100_000,
        description="how many requests one address may send, but for `/livez`, `/readyz` and "
        "`/metrics`; of IPv6 a network of 64 bits counts as one address",
    )
    writes_per_minute: int = Field(
        default=6_000,
        ge=1,
        le=100_000,
        description="how many requests that change something one user may send",
    )
    logins_per_minute: int = Field(
        default=600,
        ge=1,
        le=100_000,
        description="how many log-ins and registrations one address may send: each costs a hash",
    )
    account_logins_per_minute: int = Field(
        default=60,
        ge=1,
        le=100_000,
        description="how many log-ins with one name, and changes of its password, all addresses "
        "together may send",
    )
    pages_per_minute: int = Field(
        default=6_000,
        ge=1,
        le=100_000,
        description="how many pages for people one address may open",
    )
    anthropic_api_key: SecretStr | None = Field(
        default=None,
        description="the key for judges of Anthropic's models; without it there are none",
    )
    anthropic_base_url: str = Field(
        default="https://api.anthropic.com",
        description="where they are asked; evidence names it with each answer",
    )
    openai_api_key: SecretStr | None = Field(
        default=None, description="the key for judges that speak OpenAI's chat completions"
    )
    openai_base_url: str | None = Field(
        default=None,
        description="where they are asked, such as `https://api.openai.com/v1`; without it there "
        "are none. A server on this machine needs no key",
    )
    judge_prices: Path | None = Field(
        default=None,
        description="TOML file with what a million tokens of a judge cost; budgets are in tokens "
        "for models that it does not name",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="the least serious message that is logged"
    )

    @property
    def registering(self) -> Literal["open", "invite", "closed"]:
        """Who may register: what is set, or what the mode begins with."""
        return self.registration or ("closed" if self.mode == "production" else "open")

    @classmethod
    def from_environment(cls) -> Self:
        """Read the settings; SettingsError names every variable that is wrong, and no value."""
        try:
            settings = cls()
        except ValidationError as error:
            raise SettingsError(_wrong(error)) from None
        if settings.mode == "production":
            _require_given(settings)
        place = settings.openai_base_url
        if place is not None and settings.openai_api_key is None and not is_loopback(place):
            raise SettingsError(f"expected {variable('openai_api_key')} for {place}, got none")
        return settings

    @field_validator(
        "dataset_roots",
        "clone_roots",
        "outbound_allow",
        "github_token_for",
        "python_modules",
        "trusted_proxies",
        mode="before",
    )
    @classmethod
    def _split(cls, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, str):
            return value
        parts = value.split(_SEPARATORS[info.field_name or ""])
        return tuple(part.strip() for part in parts if part.strip())

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("database_url", "migration_url")
    @classmethod
    def _is_postgresql(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and urlsplit(value.get_secret_value()).scheme not in _POSTGRESQL:
            raise ValueError("expected an address that begins with postgresql://")
        return value

    @field_validator("github_api_url")
    @classmethod
    def _is_interface(cls, value: str) -> str:
        parts = urlsplit(value)
        is_root = parts.hostname and not (parts.username or parts.query or parts.fragment)
        if parts.scheme not in _HTTP or not is_root:
            raise ValueError("expected an http(s) address without credentials, query and fragment")
        return value.rstrip("/")

    @field_validator("anthropic_base_url", "openai_base_url")
    @classmethod
    def _may_have_keys(cls, value: str | None) -> str | None:
        if value is not None and origin_fault(value) is not None:
            raise ValueError("expected an https address without credentials, query and fragment")
        return value if value is None else value.rstrip("/")

    @field_validator("github_token_for")
    @classmethod
    def _are_repositories(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_REPOSITORIES.fullmatch(one) for one in value):
            raise ValueError("expected owner/name or owner/*, separated by commas")
        return value

    @field_validator("python_modules")
    @classmethod
    def _are_modules(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(part.isidentifier() for one in value for part in one.split(".")):
            raise ValueError("expected names of modules, such as package.module")
        return value

    @field_validator("evidence_url")
    @classmethod
    def _is_evidence_store(cls, value: str | None) -> str | None:
        if value is not None and urlsplit(value).scheme not in _EVIDENCE:
            raise ValueError("expected an address that begins with file:// or s3://")
        return value


def variable(field: str) -> str:
    """Return the environment variable of a setting."""
    return f"ECHELON_{field.upper()}"


def _wrong(error: ValidationError) -> str:
    listed = [
        f"{variable(str(one['loc'][0]))}: {model_message(one)}"
        for one in error.errors(include_input=False, include_context=False)
    ]
    return "expected settings that a service can start with, got:\n" + "\n".join(
        f"  {line}" for line in listed
    )


def _require_given(settings: Settings) -> None:
    missing = [
        variable(name)
        for name, value in (
            ("database_url", settings.database_url),
            ("jwt_keys", settings.jwt_keys),
        )
        if value is None
    ]
    if missing:
        raise SettingsError(
            f"expected {' and '.join(missing)} in the mode production, got none: set them, or "
            "leave ECHELON_MODE out to try the service with what it makes for itself"
        )
