"""What looks like a credential. A template is public for ever: no secret may get into one.

Every pattern takes time linear in the text: fixed counts, and a start only at a word's edge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

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
