"""Where a template may say its constructs are.

Source: docs/contract/template.md, docs/contract/construct.md.

A template names places, never programs, unless it comes from the machine it will run on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

from theatre.engine.canonical_json import parse_json
from theatre.engine.errors import ParseError
from theatre.engine.schema_registry import Quoted, json_pointer, phrase
from theatre.engine.template_validator.subject import Finding, Rule, Subject, as_object, as_text

_CONFIG = "product_theatre_config"
_REGISTERED = re.compile(r"construct:\S+")
_BEHIND_THE_PLACE = re.compile(r"[?#]")
_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def _endpoint_form(subject: Subject) -> Iterator[Finding]:
    for pointer, adapter, endpoint in _endpoints(subject):
        form = _FORMS.get(adapter)
        if form is None or _REGISTERED.fullmatch(endpoint):
            continue
        wording, fits, on_this_machine_only = form
        if on_this_machine_only and subject.from_api:
            yield pointer, phrase("expected construct:<id>, got ", Quoted(endpoint))
        elif not fits(endpoint):
            yield (
                pointer,
                phrase(f"expected construct:<id> or {wording}, got ", Quoted(endpoint)),
            )


def _python_adapter_local(subject: Subject) -> Iterator[Finding]:
    if not subject.from_api:
        return
    for pointer, adapter in _adapters(subject):
        if adapter == "python":
            yield pointer, "expected http, or local with a registered construct; got python"


def _endpoints(subject: Subject) -> Iterator[tuple[str, str, str]]:
    """Yield pointer, adapter type and text of each endpoint."""
    adapter, endpoint = subject.product("adapter_type"), subject.product("adapter_endpoint")
    if adapter is not None and endpoint is not None:
        yield json_pointer(_CONFIG, "adapter_endpoint"), adapter, endpoint
    for construct, value in subject.object_at(_CONFIG, "construct_endpoints").items():
        entry = as_object(value)
        adapter, endpoint = as_text(entry.get("adapter_type")), as_text(entry.get("endpoint"))
        if adapter is not None and endpoint is not None:
            pointer = json_pointer(_CONFIG, "construct_endpoints", construct, "endpoint")
            yield pointer, adapter, endpoint


def _adapters(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield pointer and text of each adapter type."""
    adapter = subject.product("adapter_type")
    if adapter is not None:
        yield json_pointer(_CONFIG, "adapter_type"), adapter
    for construct, value in subject.object_at(_CONFIG, "construct_endpoints").items():
        adapter = as_text(as_object(value).get("adapter_type"))
        if adapter is not None:
            pointer = json_pointer(_CONFIG, "construct_endpoints", construct, "adapter_type")
            yield pointer, adapter


def _is_web_address(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
        is_place = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    # A template is public: behind the place is where keys are carried. Userinfo has its own rule.
    return is_place and not _BEHIND_THE_PLACE.search(endpoint)


def _is_argument_list(endpoint: str) -> bool:
    try:
        words = parse_json(endpoint.encode("utf-8", "surrogatepass"))
    except ParseError:
        return False
    return isinstance(words, list) and bool(words) and all(isinstance(word, str) for word in words)


def _is_callable_name(endpoint: str) -> bool:
    return _CALLABLE.fullmatch(endpoint) is not None


_WEB_ADDRESS = ("an http(s) URL without query and fragment", _is_web_address, False)
_ARGUMENTS = ("a JSON array of arguments", _is_argument_list, True)
_FORMS: Mapping[str, tuple[str, Callable[[str], bool], bool]] = {
    "http": _WEB_ADDRESS,
    "local": _ARGUMENTS,
    "python": ("module:name", _is_callable_name, True),
    **dict.fromkeys(("openai", "anthropic", "mcp"), _WEB_ADDRESS),
    "command": _ARGUMENTS,
}
"""Adapter type → what its endpoint may be, and whether only on the machine it runs on."""

RULES = (
    Rule("endpoint-form", _endpoint_form),
    Rule("python-adapter-local", _python_adapter_local),
)
