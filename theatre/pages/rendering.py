"""The one environment in which every page is rendered: what is escaped, and how values are shown.

Everything is escaped where nothing says otherwise, and a name without a value is an error. Text
that people, constructs or issuers wrote goes through `text` (elements) or `plain` (titles,
attributes): it is isolated for its direction, cut, and shows the characters that have no shape.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import ClockError
from theatre.pages.wording import count_met

STATIC = "/static/"
"""Where a service serves the files in `static/`."""
MOST_CHARACTERS = 2000
"""How much of a text that others wrote stands on a page where the template says no other figure."""
NONE = "—"
_HASH = re.compile(r"[0-9a-f]{40,64}", re.ASCII)
_PERCENT = "\N{NO-BREAK SPACE}%"

# Controls, what changes the direction of text, and what has no width: a reader must see that they
# are there, and they must not move what stands around them.
# A text of white space alone would be a link without a name.
# What joins letters (U+200C, U+200D) and picks their form is part of words, and stays.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e007f]"
    r"|\A\s(?=\s*\Z)"
)


def render_page(template: str, values: Mapping[str, Any]) -> str:
    """Return a page as a service serves it: style and scripts by their addresses."""
    return _environment().get_template(template).render(values, as_file=False)


def render_file(template: str, values: Mapping[str, Any]) -> str:
    """Return the same page as one file, with style and scripts inside.

    Its policy, in a meta element, allows these by their hashes and nothing else.
    """
    return _environment().get_template(template).render(values, as_file=True)


def read_static(name: str) -> bytes:
    """Return a file of `static/`; FileNotFoundError for another name."""
    return files(__package__).joinpath("static", name).read_bytes()


@cache
def static_path(name: str) -> str:
    """Return the address of a file of `static/`, which changes with its bytes."""
    return f"{STATIC}{name}?v={sha256(read_static(name)).hexdigest()[:12]}"


@cache
def static_text(name: str) -> Markup:
    """Return a file of `static/` as the content of a style or script element.

    Raises ValueError where the file would end that element.
    """
    content = read_static(name).decode("utf-8")
    if re.search(r"</(style|script)|<!--", content, re.IGNORECASE):
        raise ValueError(f"expected a file that ends no element, got one that does: {name}")
    return Markup(content)  # noqa: S704 - a file of this package


def content_hash(content: str) -> str:
    """Return the source expression that allows an element with this content."""
    return f"'sha256-{b64encode(sha256(content.encode('utf-8')).digest()).decode('ascii')}'"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        count=format_count,
        day=format_day,
        decimal=format_decimal,
        met=count_met,
        moment=format_moment,
        percent=format_percent,
        plain=plain_text,
        range=format_range,
        short=short_hash,
        svg=Markup,  # of theatre/svg.py, which escapes what it writes
        text=isolated_text,
    )
    environment.globals.update(
        static_path=static_path, static_text=static_text, content_hash=content_hash
    )
    return environment


# Filters.


def format_count(value: int | None) -> str:
    """Return a whole number with its thousands apart."""
    return NONE if value is None else f"{value:,}"


def format_decimal(value: float | None, places: int = 3) -> str:
    """Return a number with a fixed count of places."""
    return NONE if value is None else f"{value:.{places}f}"


def format_percent(value: float | None) -> str:
    """Return a share from 0 to 1 as whole per cent; near an end, with a place more."""
    if value is None:
        return NONE
    percent = 100 * value
    if not (0 < percent < 1 or 99 < percent < 100):  # noqa: PLR2004 - never 0 % or 100 %
        return f"{percent:.0f}{_PERCENT}"
    return f"{min(max(percent, 0.1), 99.9):.1f}{_PERCENT}"


def format_range(low: float | None, high: float | None) -> str:
    """Return an interval of shares in per cent, or that there is none."""
    if low is None or high is None:
        return "no interval"
    return f"{format_percent(low).removesuffix(_PERCENT)} to {format_percent(high)}"


def format_day(value: str | None) -> Markup | str:
    """Return the day of an ISO 8601 moment, in words; what is no moment, as text."""
    return _as_time(value, "{0.day} {0:%B %Y}")


def format_moment(value: str | None) -> Markup | str:
    """Return an ISO 8601 moment to the minute, in words; what is no moment, as text."""
    return _as_time(value, "{0.day} {0:%B %Y, %H:%M} UTC")


def _as_time(value: str | None, form: str) -> Markup | str:
    if value is None:
        return NONE
    try:
        moment: datetime = parse_rfc3339(value)
    except ClockError:
        return isolated_text(value, 40)
    return Markup('<time datetime="{}">{}</time>').format(value, form.format(moment))


def short_hash(value: str | None) -> Markup:
    """Return the beginning of a hash, with all of it where the pointer rests; else the text."""
    if value is None or not _HASH.fullmatch(value):
        return isolated_text(value, 60)
    return Markup('<span class="hash" title="{}">{}…</span>').format(value, value[:12])


def plain_text(value: object, most: int = MOST_CHARACTERS) -> str:
    """Return what others wrote as plain text: cut, and unseen characters by their numbers."""
    words = NONE if value is None else str(value)
    shown = words[:most] + ("…" if len(words) > most else "")
    return _UNSEEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", shown)


def isolated_text(value: object, most: int = MOST_CHARACTERS) -> Markup:
    """Return what others wrote as an element of its own direction, cut, with its length if so."""
    words = NONE if value is None else str(value)
    shown, parts, place = words[:most], [], 0
    for found in _UNSEEN.finditer(shown):
        sign = Markup('<span class="unseen">U+{:04X}</span>').format(ord(found[0]))
        parts += [escape(shown[place : found.start()]), sign]
        place = found.end()
    parts.append(escape(shown[place:]))
    if len(words) > most:
        parts.append(
            Markup('… <span class="cut">({} characters)</span>').format(format_count(len(words)))
        )
    return Markup('<bdi dir="auto">{}</bdi>').format(Markup("").join(parts))
