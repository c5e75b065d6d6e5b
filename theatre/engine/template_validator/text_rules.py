"""Rules on every string, key and number (docs/contract/template.md §3).

They make sure that every reading of the document gives the same hash, and that it can be shown.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise

from theatre.engine.canonical_json import MAX_SAFE_INTEGER
from theatre.engine.schema_registry import Quoted, json_pointer, phrase
from theatre.engine.template_validator.subject import Finding, Rule, Subject
from theatre.engine.templates import SIMULATION

# What looks like a credential. A template is public for ever: no secret may get into one.
#
# Every pattern takes time linear in the text: fixed counts, and a start only at a word's edge.


_HALF_A_PAIR = re.compile("[\ud800-\udfff]")

_EDGE = r"(?<![A-Za-z0-9])"
_WORD = r"[A-Za-z0-9_-]"

_KINDS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "a GitHub token": rf"{_EDGE}(?:gh[pousr]_[A-Za-z0-9]{{16}}|github_pat_\w{{16}})",
        "a GitLab token": rf"{_EDGE}gl(?:pat|dt|rt|ptt|cbt)-{_WORD}{{16}}",
        "an API key": (
            rf"{_EDGE}sk-(?:[A-Za-z0-9]{{20}}|(?:ant|proj|svcacct|admin|or|lf)-{_WORD}{{16}})"
        ),
        "a service key of this platform": rf"{_EDGE}tk_[A-Za-z0-9]{{8}}_{_WORD}{{43}}",
        "a payment key": rf"{_EDGE}(?:[rs]k_(?:live|test)|whsec)_[A-Za-z0-9]{{16}}",
        "a cloud access key": rf"{_EDGE}(?:AKIA|ASIA)[A-Z0-9]{{16}}(?![A-Za-z0-9])",
        "a Google key": rf"{_EDGE}(?:AIza{_WORD}{{35}}|ya29[.]{_WORD}{{20}})",
        "a Slack token": rf"{_EDGE}(?:xox[abeoprs]|xapp)-{_WORD}{{10}}",
        "a registry token": rf"{_EDGE}(?:(?:npm|hf)_[A-Za-z0-9]{{30}}|pypi-{_WORD}{{32}})",
        "a JSON web token": r"(?<![A-Za-z0-9_.-])eyJ[A-Za-z0-9_-]{8,}[.]eyJ[A-Za-z0-9_-]{8}",
        "a bearer token": r"(?i:\bbearer)[ \t][A-Za-z0-9._~+/-]{20}",
        "a PEM block": r"-----BEGIN [A-Z0-9 ]{1,40}-----",
        "a URL with userinfo": r"://[^\s/?#@]*@",
    }.items()
}
_KEY_IN_QUERY = re.compile(
    r"[?&;#](?:api[_-]?key|apikey|key|subscription[_-]key|(?:access|auth|id|refresh|session)?[_-]?"
    r"token|auth|authorization|secret|client[_-]secret|password|passwd|pwd|sig|signature"
    r"|x-(?:amz|goog)-(?:signature|credential|security-token)|credentials?)=[^\s&#;]",
    re.IGNORECASE,
)
_CALLED_SECRET = re.compile(
    r"(?:proxy-)?authorization|token|credentials?|passwd|pwd|(?:[a-z0-9]+[_-])*(?:api[_-]?key|apikey"
    r"|(?:access|secret)[_-]key|(?:access|auth|refresh|session)[_-]token|secret|password)",
    re.IGNORECASE,
)
"""What a member or an option for a secret is called: not every key can be told by its form."""
_OPTION = re.compile(r"-{0,2}([A-Za-z0-9_-]{2,64})(?:=|:[ \t]+)\S")
_EXCERPT = re.compile(
    r"(?:gh[pousr]_|github_pat_|gl(?:pat|dt|rt|ptt|cbt)-|sk-|tk_|[rs]k_|whsec_|AKIA|ASIA|AIza|ya29"
    r"|xox[abeoprs]-|xapp-|npm_|hf_|pypi-|eyJ|bearer[ \t]|-----BEGIN|://)[^'\"]*",
    re.IGNORECASE,
)


def credential_kind(text: str) -> str | None:
    """Return what kind of credential `text` seems to hold, if any. Never repeats it."""
    for kind, pattern in _KINDS.items():
        if pattern.search(text):
            return kind
    return "a URL with a key" if _has_key_in_url(text) else None


def without_credentials(message: str) -> str:
    """Return a message about a document that holds credentials with any excerpt of one cut out.

    Takes too much rather than too little: an excerpt may be too short to be recognised.
    """
    return _EXCERPT.sub("[withheld]", message)


def _has_key_in_url(text: str) -> bool:
    # Word by word: a pattern that looked for the whole URL could take quadratic time.
    return any(
        _KEY_IN_QUERY.search(word.partition("://")[2]) is not None
        for word in text.split()
        if "://" in word
    )


def _canonical_form(subject: Subject) -> Iterator[Finding]:
    for path, value in subject.values:
        # Weights have their own rule for this.
        if isinstance(value, float) and not math.isfinite(value):
            if path[:-1][:2] != ("criteria", "weights"):
                yield json_pointer(*path), phrase("expected a finite number, got ", Quoted(value))
        elif isinstance(value, str) and _HALF_A_PAIR.search(value):
            yield json_pointer(*path), "expected Unicode text, got a lone surrogate"
        elif isinstance(value, dict) and any(map(_HALF_A_PAIR.search, value)):
            detail = "expected member names in Unicode, got a lone surrogate in one"
            yield json_pointer(*path), detail


def _strings_nfc(subject: Subject) -> Iterator[Finding]:
    for path, value in subject.values:
        if isinstance(value, str) and not unicodedata.is_normalized("NFC", value):
            detail = "expected text in Unicode form NFC, got "
            yield json_pointer(*path), phrase(detail, Quoted(value, spelt=_escaped))
        for key in value if isinstance(value, dict) else ():
            if not unicodedata.is_normalized("NFC", key):
                detail = "expected a member name in Unicode form NFC, got "
                yield json_pointer(*path, key), phrase(detail, Quoted(key, spelt=_escaped))


def _keys_order_agrees(subject: Subject) -> Iterator[Finding]:
    for path, value in subject.values:
        if not isinstance(value, dict) or all(map(str.isascii, value)):
            continue
        if sorted(value) != sorted(value, key=_utf16):
            yield (
                json_pointer(*path),
                (
                    "expected member names in the same order by code point and by UTF-16 unit, "
                    "got names where the two differ"
                ),
            )


def _integers_safe(subject: Subject) -> Iterator[Finding]:
    for path, value in subject.values:
        if isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER:
            detail = phrase("expected an integer within ±(2^53-1), got ", Quoted(value))
            yield json_pointer(*path), detail


def _called_secrets(subject: Subject) -> Iterator[Finding]:
    """Yield what settings and command lines give a name for secrets; no placeholder is one."""
    for path, value in subject.values:
        last = path[-1] if path else ""
        names: list[str] = []
        if last == "argv":
            names = _secret_options(value)
        elif last in {"adapter_endpoint", "endpoint"} and isinstance(value, str):
            with suppress(ValueError, RecursionError):
                names = _secret_options(json.loads(value))
        elif "adapter_settings" in path and isinstance(value, str) and "{{" not in value:
            names = [str(last)] if value and _CALLED_SECRET.fullmatch(str(last)) else []
        for name in names:
            detail = (
                f"expected no credential in a template, which is public, got a value of {name}: "
                "name its variable in key_env or in headers_env of a constructs.toml, or let the "
                "program read it from a file"
            )
            yield json_pointer(*path), detail


def _secret_options(argv: object) -> list[str]:
    """Return the options of a command line that have a secret, after `=` or as the next word."""
    words = [str(word) for word in argv] if isinstance(argv, list) else []
    found = []
    for before, word in pairwise(["", *words]):
        option = _OPTION.match(word)
        is_value = before.startswith("-") and not word.startswith("-")
        name = option[1] if option else before.lstrip("-") if is_value else ""
        if "{" not in word and _CALLED_SECRET.fullmatch(name):
            found.append(name)
    return found


def _no_credentials(subject: Subject) -> Iterator[Finding]:
    yield from _called_secrets(subject)
    texts = [value for _, value in subject.values if isinstance(value, str)]
    names = [name for _, value in subject.values if isinstance(value, dict) for name in value]
    # No pattern reaches over a line's end: where all of them hold none, none of them does.
    if credential_kind("\n".join(texts + names)) is None:
        return
    for path, value in subject.values:
        if isinstance(value, str) and (kind := credential_kind(value)) is not None:
            detail = f"expected no credential in a template, got what looks like {kind}"
            yield json_pointer(*path), detail
        for key in value if isinstance(value, dict) else ():
            kind = credential_kind(key)
            if kind is not None:
                detail = f"expected no credential in a member name, got what looks like {kind}"
                yield json_pointer(*path), detail


def _escaped(value: object) -> str:
    # In ASCII: what is not NFC often looks as if it were.
    return ascii(str(value)[:40])


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


RULES = (
    Rule("canonical-form", _canonical_form, since=SIMULATION),
    Rule("strings-nfc", _strings_nfc, since=SIMULATION),
    Rule("keys-order-agrees", _keys_order_agrees, since=SIMULATION),
    Rule("integers-safe", _integers_safe, since=SIMULATION),
    Rule("no-credentials", _no_credentials, since=SIMULATION),
)
