"""The settings: what the environment says, what is refused, and that no secret is repeated."""

import os
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from backend.errors import SettingsError
from backend.settings import MEBIBYTE, Settings

SECRET = "correct-horse"  # noqa: S105 - the password whose absence is the subject


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("ECHELON_"):
            monkeypatch.delenv(name)


def test_with_nothing_set_the_service_keeps_everything_for_itself() -> None:
    assert Settings.from_environment().model_dump() == {
        "home": Path(".echelon"),
        "mode": "embedded",
        "database_url": None,
        "migration_url": None,
        "evidence_url": None,
        "dataset_roots": (),
        "constructs": None,
        "python_folder": None,
        "python_modules": (),
        "outbound_allow": (),
        "clone_roots": (),
        "github_api_url": "https://api.github.com",
        "github_token_for": (),
        "jwt_keys": None,
        "trust": None,
        "issuer_key": None,
        "log_key": None,
        "issuer": "local",
        "worker_in_api": True,
        "runs_at_a_time": 2,
        "lease_seconds": 20.0,
        "drain_seconds": 20.0,
        "max_body_bytes": MEBIBYTE,
        "body_seconds": 30.0,
        "registration": None,
        "trusted_proxies": (),
        "connections": 1000,
        "head_seconds": 10.0,
        "requests_per_minute": 60_000,
        "writes_per_minute": 6_000,
        "logins_per_minute": 600,
        "account_logins_per_minute": 60,
        "pages_per_minute": 6_000,
        "anthropic_api_key": None,
        "anthropic_base_url": "https://api.anthropic.com",
        "openai_api_key": None,
        "openai_base_url": None,
        "judge_prices": None,
        "log_level": "info",
    }


def test_each_setting_is_read_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "HOME": "/srv/echelon",
        "MODE": "production",
        "DATABASE_URL": f"postgresql://app:{SECRET}@db/echelon",
        "MIGRATION_URL": f"postgresql://owner:{SECRET}@db/echelon",
        "EVIDENCE_URL": "s3://evidence/theatres",
        "DATASET_ROOTS": os.pathsep.join(["/data/one", "", "/data/with space"]),
        "CONSTRUCTS": "/etc/echelon/constructs.toml",
        "PYTHON_MODULES": "ours.listed, other",
        "PYTHON_FOLDER": "/srv/modules",
        "OUTBOUND_ALLOW": "10.1.0.0/16, construct.internal,",
        "CLONE_ROOTS": os.pathsep.join(["/srv/clones", ""]),
        "GITHUB_API_URL": "https://github.example.org/api/v3/",
        "GITHUB_TOKEN_FOR": "ada/private, ours/*",
        "JWT_KEYS": "/etc/echelon/keys.json",
        "TRUST": "/etc/echelon/trust.json",
        "ISSUER_KEY": "awskms:alias/issuer",
        "LOG_KEY": "file2:/etc/echelon/log.pem",
        "ISSUER": "an operator",
        "WORKER_IN_API": "false",
        "RUNS_AT_A_TIME": "5",
        "ANTHROPIC_API_KEY": SECRET,
        "ANTHROPIC_BASE_URL": "https://judges.example.org/",
        "OPENAI_API_KEY": SECRET,
        "OPENAI_BASE_URL": "http://127.0.0.1:11434/v1",
        "JUDGE_PRICES": "/etc/echelon/prices.toml",
        "LEASE_SECONDS": "12.5",
        "DRAIN_SECONDS": "0",
        "MAX_BODY_BYTES": "2048",
        "BODY_SECONDS": "2.5",
        "REGISTRATION": "invite",
        "TRUSTED_PROXIES": "10.0.0.0/8, ::1",
        "CONNECTIONS": "64",
        "HEAD_SECONDS": "3",
        "REQUESTS_PER_MINUTE": "30",
        "WRITES_PER_MINUTE": "20",
        "LOGINS_PER_MINUTE": "10",
        "ACCOUNT_LOGINS_PER_MINUTE": "5",
        "PAGES_PER_MINUTE": "15",
        "LOG_LEVEL": "WARNING",
    }.items():
        monkeypatch.setenv(f"ECHELON_{name}", value)
    settings = Settings.from_environment()
    assert settings.database_url is not None
    assert settings.migration_url is not None
    assert settings.database_url.get_secret_value() == f"postgresql://app:{SECRET}@db/echelon"
    assert settings.migration_url.get_secret_value() == f"postgresql://owner:{SECRET}@db/echelon"
    assert settings.model_dump(exclude={"database_url", "migration_url"}) == {
        "home": Path("/srv/echelon"),
        "mode": "production",
        "evidence_url": "s3://evidence/theatres",
        "dataset_roots": (Path("/data/one"), Path("/data/with space")),
        "constructs": Path("/etc/echelon/constructs.toml"),
        "python_modules": ("ours.listed", "other"),
        "python_folder": Path("/srv/modules"),
        "outbound_allow": ("10.1.0.0/16", "construct.internal"),
        "clone_roots": (Path("/srv/clones"),),
        "github_api_url": "https://github.example.org/api/v3",
        "github_token_for": ("ada/private", "ours/*"),
        "jwt_keys": Path("/etc/echelon/keys.json"),
        "trust": Path("/etc/echelon/trust.json"),
        "issuer_key": "awskms:alias/issuer",
        "log_key": "file2:/etc/echelon/log.pem",
        "issuer": "an operator",
        "worker_in_api": False,
        "runs_at_a_time": 5,
        "lease_seconds": 12.5,
        "drain_seconds": 0.0,
        "max_body_bytes": 2048,
        "body_seconds": 2.5,
        "registration": "invite",
        "trusted_proxies": (IPv4Network("10.0.0.0/8"), IPv6Network("::1/128")),
        "connections": 64,
        "head_seconds": 3.0,
        "requests_per_minute": 30,
        "writes_per_minute": 20,
        "logins_per_minute": 10,
        "account_logins_per_minute": 5,
        "pages_per_minute": 15,
        "anthropic_api_key": SecretStr(SECRET),
        "anthropic_base_url": "https://judges.example.org",
        "openai_api_key": SecretStr(SECRET),
        "openai_base_url": "http://127.0.0.1:11434/v1",
        "judge_prices": Path("/etc/echelon/prices.toml"),
        "log_level": "warning",
    }


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHELON_DATABASE_URL", "")
    monkeypatch.setenv("ECHELON_MAX_BODY_BYTES", "")
    assert Settings.from_environment() == Settings()


def test_every_wrong_variable_is_named_and_no_value_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ECHELON_DATABASE_URL", f"mysql://app:{SECRET}@db/echelon")
    monkeypatch.setenv("ECHELON_MODE", "half")
    monkeypatch.setenv("ECHELON_MAX_BODY_BYTES", "1")
    monkeypatch.setenv("ECHELON_GITHUB_API_URL", f"https://app:{SECRET}@github.example.org")
    monkeypatch.setenv("ECHELON_GITHUB_TOKEN_FOR", "https://github.com/o/n")
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment()
    assert str(caught.value) == (
        "expected settings that a service can start with, got:\n"
        "  ECHELON_MODE: Input should be 'embedded' or 'production'\n"
        "  ECHELON_DATABASE_URL: expected an address that begins with postgresql://\n"
        "  ECHELON_GITHUB_API_URL: expected an http(s) address without credentials, query and "
        "fragment\n"
        "  ECHELON_GITHUB_TOKEN_FOR: expected owner/name or owner/*, separated by commas\n"
        "  ECHELON_MAX_BODY_BYTES: Input should be greater than or equal to 1024"
    )


def test_production_starts_only_with_a_database_and_keys_that_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ECHELON_MODE", "production")
    with pytest.raises(
        SettingsError, match=r"^expected ECHELON_DATABASE_URL and ECHELON_JWT_KEYS in the mode"
    ):
        Settings.from_environment()
    monkeypatch.setenv("ECHELON_DATABASE_URL", "postgresql://db/echelon")
    with pytest.raises(SettingsError, match=r"^expected ECHELON_JWT_KEYS in the mode production"):
        Settings.from_environment()
    monkeypatch.setenv("ECHELON_JWT_KEYS", "keys.json")
    assert Settings.from_environment().mode == "production"


def test_settings_do_not_change_and_do_not_show_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHELON_DATABASE_URL", f"postgresql://app:{SECRET}@db/echelon")
    settings = Settings.from_environment()
    with pytest.raises(ValidationError, match="frozen"):
        settings.mode = "production"  # type: ignore[misc] # the refusal is the subject
    assert SECRET not in repr(settings) + str(settings) + settings.model_dump_json()


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"ECHELON_ANTHROPIC_BASE_URL": "http://judges.example.org"}, "ECHELON_ANTHROPIC_BASE_URL"),
        (
            {"ECHELON_OPENAI_BASE_URL": f"https://{SECRET}@judges.example.org"},
            "ECHELON_OPENAI_BASE_URL",
        ),
        ({"ECHELON_OPENAI_BASE_URL": "https://judges.example.org"}, "ECHELON_OPENAI_API_KEY"),
    ],
)
def test_a_judge_is_asked_where_a_key_may_be_sent_and_with_one(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wanted: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=wanted) as caught:
        Settings.from_environment()
    assert SECRET not in str(caught.value)
