"""Pictures of one debate: quality over the attempts, the controller's trace, the quadrants."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import hypot
from typing import NamedTuple

from theatre.debate.models import Audit, Debate
from theatre.debate.pid import Quadrant
from theatre.svg import (
    ACCENT,
    QUIET,
    SHARES,
    Key,
    Panel,
    Points,
    Ticks,
    area,
    box,
    line,
    page,
    round_ticks,
    text,
)

QUADRANTS = tuple(quadrant.value for quadrant in Quadrant)


class Step(NamedTuple):
    """One attempt, and the figures that the loop stored of it: there are any, or none."""

    label: str
    figures: dict[str, float]
    quadrant: str | None

    def has(self, *members: str) -> bool:
        """Return whether all of these were stored."""
        return all(member in self.figures for member in members)


def read_steps(debate: Debate) -> list[Step]:
    """Return the attempts of `debate` with what their audits stored.

    Members that the format leaves open may hold anything: what is no number is not drawn.
    """
    return [
        Step(
            label=f"{turn.turn_index}.{attempt.attempt_index}",
            figures=_numbers(attempt.audit),
            quadrant=_quadrant(attempt.audit),
        )
        for turn in debate.turns
        for attempt in turn.attempts or ()
    ]


def _numbers(audit: Audit | None) -> dict[str, float]:
    parts = (audit.crit, audit.pid) if audit is not None else ()
    stored = [part.model_dump() for part in parts if part is not None]
    members = [item for part in stored for item in part.items()]
    return {name: float(one) for name, one in members if type(one) in {int, float}}


def _quadrant(audit: Audit | None) -> str | None:
    members = (audit.pid.model_extra if audit is not None and audit.pid is not None else None) or {}
    name = members.get("quadrant")
    return name if isinstance(name, str) and name in QUADRANTS else None


_QUALITY, _CONTROLLER = ("gamma_mean", "theta_mean"), ("e_t", "u_t", "beta_applied")
_PLACE = ("divergence", "rho_bar")
_TOP = 44
_MOST_LABELS = 24
_ARROW = 5
_DIVERGED, _GOOD, _FAIR = 0.05, 0.8, 0.5


def debate_pictures(debate: Debate, sha256: str) -> dict[str, str]:
    """Return `quality.svg`, `controller.svg` and `quadrants.svg` as far as there are numbers.

    `sha256` is that of the artefact.
    """
    steps = read_steps(debate)
    title = f"{debate.debate_id}, run {debate.run_id[:8]}"
    foot = [
        f"n = {len(steps)} attempts; made {debate.metadata.created_at[:10]}",
        f"artefact {sha256}",
    ]
    pictures: dict[str, str] = {}
    if any(step.has(name) for step in steps for name in _QUALITY):
        pictures["quality.svg"] = _quality(steps, title, foot)
    if any(step.has(*_CONTROLLER) for step in steps):
        pictures["controller.svg"] = _controller(steps, title, foot)
    if any(step.has(*_PLACE) for step in steps):
        pictures["quadrants.svg"] = _quadrants(steps, title, foot)
    return pictures


def _drawn(steps: Sequence[Step], member: str) -> Points:
    return [(place, step.figures[member]) for place, step in enumerate(steps) if step.has(member)]


def _quality(steps: Sequence[Step], title: str, foot: Sequence[str]) -> str:
    panel = _over_steps(steps, _TOP, 200, up=(-0.02, 1.02))
    elements = [
        *panel.frame(_ticks(steps), SHARES, below="turn.attempt", beside="mean over reasons"),
        panel.level(_GOOD, ACCENT),
        panel.level(_FAIR, QUIET),
    ]
    keys = []
    for member, colour, mark in zip(_QUALITY, (ACCENT, QUIET), ("disc", "square"), strict=True):
        elements += panel.curve(_drawn(steps, member), mark, colour)
        keys.append(Key(mark, colour, member))
    keys.append(Key("dashed", QUIET, "thresholds"))
    return page(title=title, width=720, end=_TOP + 236, elements=elements, keys=keys, footer=foot)


def _controller(steps: Sequence[Step], title: str, foot: Sequence[str]) -> str:
    values = [value for name in ("e_t", "u_t") for _, value in _drawn(steps, name)]
    low, high = min(0.0, *values), max(0.0, *values)
    room = 0.05 * (high - low) or 1
    upper = _over_steps(steps, _TOP, 180, up=(low - room, high + room))
    lower = _over_steps(steps, _TOP + 212, 110, up=(-0.02, 1.02))
    elements = [
        *upper.frame(_ticks(steps), round_ticks(*upper.up), beside="error, output"),
        *lower.frame(_ticks(steps), SHARES, below="turn.attempt", beside="strength"),
        line([upper.at(upper.across[0], 0), upper.at(upper.across[1], 0)], QUIET),
        *upper.curve(_drawn(steps, "e_t"), "square", QUIET),
        *upper.curve(_drawn(steps, "u_t"), "disc", ACCENT),
        line(
            [lower.at(x, y) for x, y in _stairs(_drawn(steps, "beta_applied"))], ACCENT, width=1.6
        ),
    ]
    keys = [
        Key("square", QUIET, "e_t"),
        Key("disc", ACCENT, "u_t"),
        Key("line", ACCENT, "strength applied next"),
    ]
    return page(title=title, width=720, end=_TOP + 358, elements=elements, keys=keys, footer=foot)


def _over_steps(
    steps: Sequence[Step], top: float, height: float, *, up: tuple[float, float]
) -> Panel:
    return Panel(72, top, 624, height, across=(-0.5, len(steps) - 0.5), up=up)


def _ticks(steps: Sequence[Step]) -> Ticks:
    every = 1 + len(steps) // _MOST_LABELS
    return [(place, "" if place % every else step.label) for place, step in enumerate(steps)]


def _stairs(points: Points) -> Points:
    """Return a line that is level around each point."""
    return [(x + half, y) for x, y in points for half in (-0.5, 0.5)]


def _quadrants(steps: Sequence[Step], title: str, foot: Sequence[str]) -> str:
    placed = [step.figures for step in steps if step.has(*_PLACE)]
    elements = [
        *_path([(one["divergence"], one["rho_bar"]) for one in placed]),
        *_transitions([step.quadrant for step in steps if step.quadrant is not None]),
    ]
    return page(title=title, width=960, end=_TOP + 396, elements=elements, footer=foot)


def _path(drawn: Points) -> Iterator[str]:
    """Draw where each step lies, and a line to where the next one is."""
    right = max([0.12, *(x * 1.1 for x, _ in drawn)])
    panel = Panel(64, _TOP, 470, 360, across=(-0.04 * right, right * 1.04), up=(-0.02, 1.02))
    yield from panel.frame(
        round_ticks(0, right),
        SHARES,
        below="divergence of the agents' quality, bits",
        beside="mean quality",
    )
    yield panel.upright(_DIVERGED, QUIET)
    yield panel.level(_GOOD, QUIET)
    corners = (("CONVERGED", 0.0, 1.0), ("HEALTHY", right, 1.0), ("STUCK", 0.0, 0.0))
    for name, x, y in (*corners, ("CHAOTIC", right, 0.0)):
        place, height = panel.at(x, y)
        anchor = "end" if x else "start"
        yield text(place, height + (12 if y else -6), name, size=10, anchor=anchor, colour=QUIET)
    yield from panel.curve(drawn, "disc", ACCENT)
    for here, there in pairwise(panel.at(*one) for one in drawn):
        yield _arrow(here, there)
    for name, (x, y), down in (("first", drawn[0], 16), ("last", drawn[-1], -8)):
        place, height = panel.at(x, y)
        yield text(place + 8, height + down, name, size=10, bold=True)


def _arrow(here: tuple[float, float], there: tuple[float, float]) -> str:
    """Return the head of an arrow on the way; nothing for a way too short to see."""
    across, down = there[0] - here[0], there[1] - here[1]
    # Beyond the middle: the way back has its own.
    x, y = here[0] + 0.65 * across, here[1] + 0.65 * down
    length = hypot(across, down)
    if length < 2 * _ARROW:
        return ""
    dx, dy = _ARROW * across / length, _ARROW * down / length
    return area(
        [(x + dx, y + dy), (x - dx - dy, y - dy + dx), (x - dx + dy, y - dy - dx)], QUIET, 1
    )


def _transitions(quadrants: Sequence[str]) -> Iterator[str]:
    """Draw how often a step in one quadrant was followed by one in another."""
    counts = Counter(pairwise(quadrants))
    most = max(counts.values(), default=1)
    left, top, side = 648, _TOP + 36, 72
    yield text(left, top - 22, "steps from a quadrant to the next", bold=True)
    for row, before in enumerate(QUADRANTS):
        y = top + row * side
        yield text(left - 8, y + side / 2 + 4, before, size=9, anchor="end")
        for column, after in enumerate(QUADRANTS):
            x, count = left + column * side, counts[before, after]
            yield area(box(x, y, side - 1, side - 1), ACCENT, 0.04 + 0.5 * count / most)
            yield text(x + side / 2, y + side / 2 + 4, str(count or ""), anchor="middle")
    end = top + len(QUADRANTS) * side
    for column, after in enumerate(QUADRANTS):
        yield text(left + (column + 0.5) * side, end + 14, after, size=9, anchor="middle")
    yield text(left + 2 * side, end + 32, "to", size=10, anchor="middle")
    yield text(left - 8, top - 6, "from", size=10, anchor="end")
