"""Pictures of a ladder report, as SVG; the same report gives the same bytes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from theatre.axion.harness.ladder import LEVELS
from theatre.svg import (
    HUES,
    MARGIN,
    MARKS,
    SHARES,
    Key,
    Panel,
    area,
    page,
    round_ticks,
    text,
    width_of,
)

_TOP = 48
_BETWEEN = 24
_UP = (-0.03, 1.03)
_HALVES = ((0.0, "0"), (0.5, "0.5"), (1.0, "1"))

Report = Mapping[str, Any]


def write_pictures(report: Report, folder: Path) -> list[Path]:
    """Draw `matrix.svg`, `fidelity.svg` and `entropy.svg` into `folder`; return their paths."""
    pictures = {
        "matrix.svg": _matrix(report),
        "fidelity.svg": _fidelity(report),
        "entropy.svg": _entropy(report),
    }
    for name, picture in pictures.items():
        (folder / name).write_text(picture, encoding="utf-8")
    return [folder / name for name in pictures]


def _matrix(report: Report) -> str:
    names = list(report["matrix"])[::-1]
    left = MARGIN + max(map(width_of, names)) + 10
    wide, height = (880 - left - MARGIN) / len(LEVELS) - _BETWEEN, 30 * len(names)
    elements: list[str] = []
    for column, level in enumerate(LEVELS):
        panel = Panel(
            *(left + column * (wide + _BETWEEN), _TOP + 12, wide, height),
            across=(-0.05, 1.05),
            up=(-0.6, len(names) - 0.4),
        )
        elements.append(text(panel.left, _TOP, level, bold=True))
        elements += panel.frame(_HALVES, [(place, "") for place in range(len(names))])
        for place, name in enumerate(names):
            rate = report["matrix"][name][level]
            hue = HUES[0] if name.startswith("honest") else HUES[1]
            elements.append(panel.whisker(rate["low"], rate["high"], place, hue))
            elements.append(panel.point("disc", rate["value"], place, hue))
            if not column:
                y = panel.at(0, place)[1] + 4
                elements.append(text(left - 10, y, name, anchor="end"))
    below = f"share of {report['episodes']} episodes that pass, Wilson 95 %"
    end = _TOP + 12 + height + 34
    elements.append(text(left + (880 - left) / 2, end, below, size=10, anchor="middle"))
    return page(
        title="Episodes that pass, by agent and level",
        width=880,
        end=end,
        elements=elements,
        keys=[Key("disc", HUES[0], "honest"), Key("disc", HUES[1], "lying")],
        footer=_foot(report),
    )


def _fidelity(report: Report) -> str:
    points = report["fidelity"]["points"]
    asked = [point["fidelity"] for point in points]
    panel = Panel(72, _TOP, 640, 320, across=(min(asked) - 0.01, max(asked) + 0.01), up=_UP)
    elements = list(
        panel.frame(
            round_ticks(min(asked), max(asked)),
            SHARES,
            below="share of steps that the one published model must explain",
            beside="episodes that pass all four levels",
        )
    )
    names = [name for name in points[0] if name != "fidelity"]
    for place, name in enumerate(names):
        lows = [panel.at(point["fidelity"], point[name]["low"]) for point in points]
        highs = [panel.at(point["fidelity"], point[name]["high"]) for point in points]
        elements.append(area([*lows, *reversed(highs)], HUES[place % len(HUES)], 0.12))
        passed = [(point["fidelity"], point[name]["value"]) for point in points]
        elements += panel.curve(passed, *_mark(place))
    title = "Episodes that pass all levels, by the fidelity asked for"
    return _page_of_curves(report, title, names, elements, end=_TOP + 320 + 38)


def _entropy(report: Report) -> str:
    bins = next(iter(report["sweep"].values()))["bins"]
    panel = Panel(72, _TOP, 640, 320, across=(-0.3, len(bins) - 0.7), up=_UP)
    ticks = [(place, f"{one['bin']}\n{one['episodes']} episodes") for place, one in enumerate(bins)]
    elements = list(
        panel.frame(
            ticks,
            SHARES,
            below="env_entropy of the world at the start",
            beside="pass rate of P5-MCI, mci_minimal",
        )
    )
    for place, row in enumerate(report["sweep"].values()):
        filled = [
            (column, one["pass_rate"]["value"])
            for column, one in enumerate(row["bins"])
            if one["episodes"]
        ]
        elements += panel.curve(filled, *_mark(place))
    title = "Pass rate of P5 by entropy, for liars who check more and more"
    return _page_of_curves(report, title, list(report["sweep"]), elements, end=_TOP + 320 + 50)


def _mark(place: int) -> tuple[str, str]:
    return MARKS[place % len(MARKS)], HUES[place % len(HUES)]


def _page_of_curves(
    report: Report, title: str, names: Sequence[str], elements: Sequence[str], *, end: float
) -> str:
    keys = [Key(*_mark(place), name) for place, name in enumerate(names)]
    return page(title=title, width=736, end=end, elements=elements, keys=keys, footer=_foot(report))


def _foot(report: Report) -> list[str]:
    told = (f"{name} {report[name]}" for name in ("profile", "episodes", "steps", "seed"))
    return [", ".join(told)]
