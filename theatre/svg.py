"""Charts as SVG, written as text: elements, a panel with two axes, and the page around panels.

The same numbers give the same bytes on every machine. Text stays text, so that it can be searched
and read aloud; it has room for a font that is wider than usual.
"""

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

Ticks = Sequence[tuple[float, str]]
"""Values of an axis, and the words at each."""
Points = Sequence[tuple[float, float]]

# Two hues that stay apart for colour-blind readers, and greys.
INK, ACCENT, QUIET, GREY, GRID = "#1f2933", "#1b5e9b", "#7a5c2b", "#52606d", "#d9dee3"
HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b87900", "#56b4e9")
"""More of them (Okabe and Ito)."""
MARKS = ("disc", "square", "triangle", "diamond", "cross", "bar")
SHARES: Ticks = tuple((place / 5, f"{place / 5:g}") for place in range(6))
"""Ticks from 0 to 1."""
MARGIN = 16

_FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
_EM = 0.63
"""The mean width of a character of a wide font, in units of its size."""
_LINE = 15
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STROKES = {"bar": ((0, -6, 0, 6),), "cross": ((-5, -5, 5, 5), (-5, 5, 5, -5))}
_CORNERS: Mapping[str, Points] = {
    "square": ((-4, -4), (4, -4), (4, 4), (-4, 4)),
    "triangle": ((-5, -4), (5, -4), (0, 5)),
    "diamond": ((0, -6), (5, 0), (0, 6), (-5, 0)),
}


class Key(NamedTuple):
    """An entry of a legend."""

    mark: str
    colour: str
    words: str


class Panel(NamedTuple):
    """A frame in pixels, and the range of values of each axis."""

    left: float
    top: float
    width: float
    height: float
    across: tuple[float, float] = (0, 1)
    up: tuple[float, float] = (0, 1)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a value lies, in pixels."""
        (least, most), (low, high) = self.across, self.up
        return (
            self.left + (x - least) / (most - least) * self.width,
            self.top + (high - y) / (high - low) * self.height,
        )

    def frame(
        self, across: Ticks, up: Ticks, *, below: str = "", beside: str = ""
    ) -> Iterator[str]:
        """Yield grid and ticks, and the words below and next to them."""
        bottom = self.top + self.height
        for value, words in across:
            x, _ = self.at(value, self.up[0])
            yield line([(x, self.top), (x, bottom)], GRID)
            for row, part in enumerate(words.split("\n")):
                yield text(x, bottom + 15 + 13 * row, part, size=10, anchor="middle")
        for value, words in up:
            _, y = self.at(self.across[0], value)
            yield line([(self.left, y), (self.left + self.width, y)], GRID)
            yield text(self.left - 8, y + 4, words, size=10, anchor="end")
        rows = max((words.count("\n") for _, words in across), default=0)
        yield text(
            self.left + self.width / 2, bottom + 34 + 13 * rows, below, size=10, anchor="middle"
        )
        x = self.left - 16 - max((width_of(words, 10) for _, words in up), default=0)
        yield text(x, self.top + self.height / 2, beside, size=10, anchor="middle", turned=True)

    def whisker(self, low: float, high: float, y: float, colour: str) -> str:
        """Return an interval along the first axis."""
        (left, place), (right, _) = self.at(low, y), self.at(high, y)
        return area(box(left, place - 4, right - left, 8), colour, 0.35)

    def pole(self, x: float, low: float, high: float, colour: str) -> str:
        """Return an interval along the second axis."""
        (place, bottom), (_, top) = self.at(x, low), self.at(x, high)
        return area(box(place - 1.5, top, 3, bottom - top), colour, 0.35)

    def point(self, kind: str, x: float, y: float, colour: str) -> str:
        """Return a mark at a value."""
        return mark(kind, *self.at(x, y), colour)

    def curve(self, points: Points, kind: str, colour: str) -> Iterator[str]:
        """Yield a line through values, and a mark at each."""
        yield line([self.at(x, y) for x, y in points], colour, width=1.4)
        for x, y in points:
            yield self.point(kind, x, y, colour)

    def level(self, y: float, colour: str) -> str:
        """Return a dashed line along the first axis."""
        left, right = self.across
        return line([self.at(left, y), self.at(right, y)], colour, dashes="4 3")

    def upright(self, x: float, colour: str) -> str:
        """Return a dashed line along the second axis."""
        low, high = self.up
        return line([self.at(x, low), self.at(x, high)], colour, dashes="4 3")


def page(
    *,
    title: str,
    width: float,
    end: float,
    elements: Iterable[str],
    keys: Sequence[Key] = (),
    footer: Iterable[str] = (),
) -> str:
    """Return a document: title, elements down to `end`, legend, and lines at the foot."""
    parts = [text(MARGIN, 22, cut(title, width - 2 * MARGIN, 13), size=13, bold=True), *elements]
    y = end + 4
    for x, place, key in _key_places(keys, y + _LINE, width):
        y = place
        parts += [mark(key.mark, x + 7, y - 4, key.colour), text(x + 20, y, key.words, size=10)]
    y += 6
    characters = int((width - 2 * MARGIN) / (_EM * 10))
    for entry in footer:
        for part in textwrap.wrap(entry, characters, break_on_hyphens=False):
            y += _LINE
            parts.append(text(MARGIN, y, part, size=10, colour=GREY))
    size = f"{_px(width)} {_px(y + 14)}"
    across, down = size.split()
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across}" height="{down}" '
        f'viewBox="0 0 {size}" font-family="{_FONT}" role="img" '
        f"aria-label={quoteattr(_as_xml(title))}>\n"
        '<rect width="100%" height="100%" fill="white"/>\n'
        + "".join(f"{part}\n" for part in parts if part)
        + "</svg>\n"
    )


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: float = 11,
    anchor: str = "start",
    colour: str = INK,
    bold: bool = False,
    turned: bool = False,
) -> str:
    """Return words at a place; nothing for no words."""
    if not words:
        return ""
    more = ' font-weight="bold"' if bold else ""
    more += f' transform="rotate(-90 {_px(x)} {_px(y)})"' if turned else ""
    return (
        f'<text x="{_px(x)}" y="{_px(y)}" font-size="{size:g}" text-anchor="{anchor}" '
        f'fill="{colour}"{more}>{escape(_as_xml(words))}</text>'
    )


def line(points: Points, colour: str, *, width: float = 1, dashes: str = "") -> str:
    """Return a line through places; nothing for fewer than two."""
    if len(points) < 2:  # noqa: PLR2004 - a line has two ends
        return ""
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<polyline points="{_list(points)}" fill="none" stroke="{colour}" '
        f'stroke-width="{width:g}"{dashed}/>'
    )


def area(points: Points, colour: str, opacity: float) -> str:
    """Return a filled area between places."""
    return f'<polygon points="{_list(points)}" fill="{colour}" fill-opacity="{opacity:.3g}"/>'


def box(x: float, y: float, width: float, height: float) -> Points:
    """Return the corners of a box."""
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def mark(kind: str, x: float, y: float, colour: str) -> str:
    """Return one of MARKS at a place; for a legend also a `line`, or a `dashed` one."""
    if kind in {"line", "dashed"}:
        return line([(x - 8, y), (x + 8, y)], colour, dashes="4 3" if kind == "dashed" else "")
    if kind == "disc":
        return f'<circle cx="{_px(x)}" cy="{_px(y)}" r="4" fill="{colour}"/>'
    if kind in _STROKES:
        strokes = "".join(
            f"M{_px(x + a)} {_px(y + b)}L{_px(x + c)} {_px(y + d)}" for a, b, c, d in _STROKES[kind]
        )
        return f'<path d="{strokes}" stroke="{colour}" stroke-width="1.6"/>'
    corners = _list([(x + dx, y + dy) for dx, dy in _CORNERS[kind]])
    return f'<polygon points="{corners}" fill="none" stroke="{colour}" stroke-width="1.4"/>'


def width_of(words: str, size: float = 11) -> float:
    """Return the room that words need, in pixels."""
    return _EM * size * len(words)


def cut(words: str, width: float, size: float = 11) -> str:
    """Return as much of words as has room, and an ellipsis."""
    most = int(width / (_EM * size))
    return words if len(words) <= most else words[: most - 1] + "…"


def round_ticks(low: float, high: float, most: int = 6) -> Ticks:
    """Return round numbers from `low` to `high`, about as many as `most`."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(place * step, f"{round(place * step, 9) + 0.0:g}") for place in range(first, last + 1)]


def _key_places(keys: Iterable[Key], y: float, width: float) -> Iterator[tuple[float, float, Key]]:
    """Yield where each entry of a legend begins: as many in a row as have room."""
    x: float = MARGIN
    for key in keys:
        wide = 40 + width_of(key.words, 10)
        if x > MARGIN and x + wide > width:
            x, y = MARGIN, y + _LINE
        yield x, y, key
        x += wide


def _as_xml(words: str) -> str:
    return _NOT_XML.sub("\ufffd", words)


def _list(points: Points) -> str:
    return " ".join(f"{_px(x)},{_px(y)}" for x, y in points)


def _px(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def strip(score: float | None, low: float | None, high: float | None, other: float | None) -> str:
    """Return a score from 0 to 1 with its interval on a line, as wide as there is room.

    `other` is what the best trivial answer scores. Colours come from the style of the page, by
    classes; without a style the shapes tell the parts apart. It says nothing aloud: the numbers
    stand next to it.
    """
    parts = ['<line class="axis" x1="0%" x2="100%" y1="16" y2="16"/>']
    parts += [
        f'<line class="axis" x1="{at}%" x2="{at}%" y1="11" y2="21"/>' for at in range(0, 101, 25)
    ]
    if low is not None and high is not None:
        wide = max(high - low, 0.002)
        parts.append(
            f'<rect class="range" x="{_px(100 * low)}%" y="10" width="{_px(100 * wide)}%" '
            'height="12" rx="3"/>'
        )
    if other is not None:
        parts.append(
            f'<svg x="{_px(100 * other)}%" y="2" overflow="visible">'
            '<path class="other" d="M-5 0L5 0L0 8Z"/></svg>'
        )
    if score is not None:
        parts.append(f'<circle class="score" cx="{_px(100 * score)}%" cy="16" r="6"/>')
    return (
        '<svg class="strip" width="100%" height="30" overflow="visible" aria-hidden="true" '
        f'focusable="false">{"".join(parts)}</svg>'
    )


def badge_of(lines: tuple[str, str], sentence: str, colour: str) -> str:
    """Return a badge: two lines on a colour, and a sentence that is read aloud for both."""
    first, second = lines
    name, high = 84, 40
    wide = name + 24 + max(width_of(first, 12), width_of(second, 10))
    size = f'width="{_px(wide)}" height="{high}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_px(wide)} {high}" '
        f'font-family="{_FONT}" role="img" aria-label={quoteattr(_as_xml(sentence))}>\n'
        f"<title>{escape(_as_xml(sentence))}</title>\n"
        f'<rect {size} rx="5" fill="{INK}"/>\n'
        f'<path d="M{name} 0H{_px(wide - 5)}a5 5 0 0 1 5 5V{high - 5}a5 5 0 0 1 -5 5H{name}z" '
        f'fill="{colour}"/>\n'
        f"{text(12, 25, 'Echelon', size=14, bold=True, colour='#ffffff')}\n"
        f"{text(name + 12, 17, first, size=12, bold=True, colour='#ffffff')}\n"
        f"{text(name + 12, 32, second, size=10, colour='#ffffff')}\n"
        "</svg>\n"
    )
