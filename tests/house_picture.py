"""Draw the house: a bar a module, as long as its lines, a row a package, two trees abreast."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.house import PROJECT, modules
from theatre import svg

# Rows from the outside in, as the import contracts have them.
FLOORS = (
    ("theatre/cli", "theatre/construct_kit"),
    ("theatre/verification", "theatre/debate", "theatre/axion"),
    ("theatre/judging", "theatre/oracles", "theatre/scorers", "theatre/files"),
    ("theatre/transparency",),
    (
        "theatre/engine/replay",
        "theatre/engine/bundle_check",
        "theatre/engine/scoring",
        "theatre/engine/template_validator",
        "theatre/engine",
    ),
    ("backend/api", "backend/services", "backend/repositories", "backend"),
)
_LEFT, _WIDTH, _ROW, _SPACE, _LINES = 220, 400, 13, 9, 25
"""Pixels, and lines of code a pixel."""


def sizes(folder: Path) -> Mapping[str, Sequence[int]]:
    """Return the lines of each module by package, the longest first; a package has its own room."""
    rooms: dict[str, list[int]] = {name: [] for floor in FLOORS for name in floor}
    deepest = sorted(rooms, key=len, reverse=True)
    for package in PROJECT:
        for path in modules(folder / package):
            name = path.relative_to(folder).as_posix()
            room = next((one for one in deepest if name.startswith(f"{one}/")), None)
            if room is not None:
                rooms[room].append(path.read_text(encoding="utf-8").count("\n"))
    return {name: sorted(lengths, reverse=True) for name, lengths in rooms.items()}


def draw(trees: Mapping[str, Path]) -> str:
    """Return the picture: a column a tree."""
    elements: list[str] = []
    columns = {name: sizes(folder) for name, folder in trees.items()}
    bottom = 0.0
    for place, (title, rooms) in enumerate(columns.items()):
        left, y = _LEFT + place * (_WIDTH + 30), 60.0
        modules_, lines = sum(map(len, rooms.values())), sum(map(sum, rooms.values()))
        elements.append(svg.text(left, y - 12, f"{title}: {modules_} modules, {lines:,} lines"))
        for number, floor in enumerate(FLOORS):
            for room in floor:
                other = [column[room] for column in columns.values()]
                height = max(_rows(lengths) for lengths in other) * _ROW
                if place == 0:
                    elements.append(svg.text(left - 10, y + 10, room, anchor="end"))
                elements += _bars(rooms[room], left, y, svg.HUES[number % len(svg.HUES)])
                y += height + _SPACE
            y += _SPACE
        bottom = max(bottom, y)
    width = _LEFT + len(trees) * (_WIDTH + 30)
    title = "Each bar is a module, as long as its lines of code"
    return svg.page(title=title, width=width, end=bottom, elements=elements)


def _rows(lengths: Sequence[int]) -> int:
    return max((row for row, _, _ in _places(lengths)), default=0) + 1


def _places(lengths: Sequence[int]) -> list[tuple[int, float, float]]:
    """Return row, left end and width of each bar, in pixels."""
    places, row, x = [], 0, 0.0
    for length in lengths:
        width = max(1.5, length / _LINES)
        if x + width > _WIDTH:
            row, x = row + 1, 0.0
        places.append((row, x, width))
        x += width + 1.5
    return places


def _bars(lengths: Sequence[int], left: float, top: float, colour: str) -> list[str]:
    return [
        svg.area(svg.box(left + x, top + row * _ROW, width, _ROW - 3), colour, 0.8)
        for row, x, width in _places(lengths)
    ]


def main() -> None:
    """Write the picture of the trees that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", help="the SVG to write")
    parser.add_argument("tree", nargs="+", help="NAME=FOLDER")
    asked = parser.parse_args()
    named = (tree.partition("=") for tree in asked.tree)
    Path(asked.output).write_text(draw({name: Path(folder) for name, _, folder in named}))


if __name__ == "__main__":
    main()
