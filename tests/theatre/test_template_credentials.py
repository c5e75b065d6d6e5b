"""No secret gets into a template, and none is repeated by the message that refuses it."""

import json

import pytest

from theatre.engine.canonical_json import JsonObject
from theatre.engine.template_validator import TemplateValidator
from theatre.engine.template_validator.text_rules import credential_kind

CREDENTIALS = {
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789": "a GitHub token",
    "github_pat_11ABCDEFG0abcdefghijkl": "a GitHub token",
    "glpat-abcdefghij0123456789": "a GitLab token",
    "sk-ant-api03-abcdefghijklmnop": "an API key",
    "sk-abcdefghijklmnopqrstuvwx": "an API key",
    f"tk_abcdefgh_{'x' * 43}": "a service key of this platform",
    "sk_live_abcdefghijklmnop": "a payment key",
    "AKIAABCDEFGHIJKLMNOP": "a cloud access key",
    f"AIza{'x' * 35}": "a Google key",
    "xoxb-1234567890-abc": "a Slack token",
    f"npm_{'x' * 36}": "a registry token",
    "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxMjMifQ.c2ln": "a JSON web token",
    "Bearer abcdefghijklmnopqrstuvwxyz": "a bearer token",
    "-----BEGIN EC PRIVATE KEY-----": "a PEM block",
    "postgres://alice@db.example/x": "a URL with userinfo",
    "https://alice:secret@db.example/x": "a URL with userinfo",
    "https://example.com/x?limit=1&api_key=1": "a URL with a key",
    "https://example.com/#access_token=abc": "a URL with a key",
}


@pytest.mark.parametrize(("secret", "kind"), CREDENTIALS.items(), ids=CREDENTIALS.values())
def test_a_credential_is_known_by_its_form(secret: str, kind: str) -> None:
    assert credential_kind(secret) == kind
    assert credential_kind(f"it is {secret}, keep it") == kind


@pytest.mark.parametrize(
    "text",
    [
        "risk-assessment-of-everything-that-matters",
        "sk-learn-pipeline-for-classification",
        "https://example.com/@user/key?limit=5&monkey=1",
        "https://example.com/page?tokens=12",
        "the bearer of this letter",
        "mail alice@example.com about https://example.com",
        "token=abc outside of an address",
        "0f" * 32,
        "",
    ],
)
def test_ordinary_text_is_no_credential(text: str) -> None:
    assert credential_kind(text) is None


@pytest.mark.parametrize("secret", CREDENTIALS)
def test_a_template_with_a_credential_is_refused_without_repeating_it(secret: str) -> None:
    document = {"template_family": secret, "theatre_id": f"{secret} {secret}", secret: {secret: 1}}
    report = TemplateValidator({}).validate(document)  # type: ignore[arg-type]  # JSON it is
    refused = {error.pointer for error in report.errors if error.rule == "no-credentials"}
    assert {"", "/template_family", "/theatre_id"} < refused
    repeated = secret[:16]
    assert not [error for error in report.errors if repeated in f"{error.pointer} {error.detail}"]


@pytest.mark.parametrize("secret", CREDENTIALS)
def test_a_credential_is_found_in_a_text_alone_and_in_a_name_alone(secret: str) -> None:
    documents: list[JsonObject] = [{"note": ["x", secret, "y"]}, {"note": {"x": 1, secret: 2}}]
    for document in documents:
        report = TemplateValidator({}).validate(document)
        assert "no-credentials" in {error.rule for error in report.errors}


@pytest.mark.parametrize(
    "unit", ["://", "eyJ", "bearer ", "a://?key", "-----BEGIN ", "sk-", "?key"]
)
def test_hostile_text_is_scanned_in_linear_time(unit: str) -> None:
    # Quadratic work on a mebibyte would take minutes.
    assert credential_kind(unit * (2**20 // len(unit))) is None


def refused_in(config: JsonObject) -> set[str]:
    """Return where a template with this configuration holds a credential."""
    document: JsonObject = {"schema_version": "2.2.0", "product_theatre_config": config}
    report = TemplateValidator({}).validate(document)
    found = [error for error in report.errors if "0123abcd" in f"{error.pointer} {error.detail}"]
    assert not found
    return {
        error.pointer.removeprefix("/product_theatre_config")
        for error in report.errors
        if error.rule == "no-credentials"
    }


@pytest.mark.parametrize(
    "words",
    [
        ["--api-key=0123abcd"],
        ["--token", "0123abcd"],
        ["OPENAI_API_KEY=0123abcd"],
        ["-H", "X-Api-Key: 0123abcd"],
        ["-H", "authorization: token 0123abcd"],
    ],
)
def test_what_is_called_a_secret_is_one_whatever_its_form(words: list[str]) -> None:
    argv = ["{python}", "ask.py", *words]
    chain: JsonObject = {"other": {"endpoint": json.dumps(argv)}}
    assert refused_in({"adapter_endpoint": json.dumps(argv)}) == {"/adapter_endpoint"}
    assert refused_in({"construct_endpoints": chain}) == {"/construct_endpoints/other/endpoint"}
    container: JsonObject = {"argv": [*argv]}
    assert refused_in({"adapter_settings": container}) == {"/adapter_settings/argv"}


def test_a_member_of_settings_that_is_called_a_secret_has_no_value() -> None:
    settings: JsonObject = {
        "parameters": {"extra_body": {"api_key": "0123abcd"}, "Authorization": "0123abcd"},
        "arguments": {"password": "0123abcd", "token": "{{/token}}"},
        "key_env": "0123abcd",
    }
    assert refused_in({"adapter_settings": settings}) == {
        "/adapter_settings/parameters/extra_body/api_key",
        "/adapter_settings/parameters/Authorization",
        "/adapter_settings/arguments/password",
    }


def test_what_only_sounds_like_a_secret_is_none() -> None:
    argv = ["{python}", "ask.py", "token:f", "--token", "-v", "--eos-token=</s>", "--token={input}"]
    settings: JsonObject = {
        "parameters": {"max_tokens": 3, "stop_token": "x", "api_key": ""},
        "arguments": {"key": "x", "fields": ["password"]},
        "argv": [*argv],
        "key_env": "OPENAI_API_KEY",
    }
    assert not refused_in({"adapter_endpoint": json.dumps(argv), "adapter_settings": settings})
    assert not refused_in({"adapter_endpoint": "[", "construct_under_test": "token"})
