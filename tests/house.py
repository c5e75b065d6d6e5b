"""Measure the house: sizes, one-use helpers, imports, comments and words, for one or more trees.

usage: python -m tests.house [NAME=FOLDER ...]

Without arguments the two packages of the project are measured. Other code bases stand in columns of
their own: `python -m tests.house here=. tuf=../python-tuf/tuf`. Folders named `tests`, and hidden
ones, are left out.
"""

import ast
import io
import re
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PROJECT = ("theatre", "backend")
MANNERED = ("whoever", "nobody", "somebody", "told", "beside")
_MEGABYTE = 1_000_000


def modules(folder: Path) -> Iterator[Path]:
    """Yield the modules below `folder` that are no tests."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        if not any(part == "tests" or part.startswith(".") for part in parts):
            yield path


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield each function and method of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without its docstring."""
    first = function.body[0]
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def percentile(values: Sequence[int], share: float) -> int:
    """Return the value below which `share` of the values lie."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def measured(folders: Sequence[Path]) -> Mapping[str, str]:
    """Return the measures of the modules in `folders`, by name."""
    sizes, lengths, imports, comments = [], [], 0, 0
    private: list[str] = []
    names: Counter[str] = Counter()
    text = ""
    for path in (one for folder in folders for one in modules(folder)):
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        sizes.append(source.count("\n"))
        for function in functions(tree):
            lengths.append(length(function))
            if function.name.startswith("_") and not function.name.startswith("__"):
                private.append(function.name)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports += (node.end_lineno or node.lineno) - node.lineno + 1
            elif isinstance(node, ast.Name):
                names[node.id] += 1
            elif isinstance(node, ast.Attribute):
                names[node.attr] += 1
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        comments += sum(token.type == tokenize.COMMENT for token in tokens)
        text += source
    lines = sum(sizes)
    words = Counter(re.findall(r"[a-z]+", text.lower()))
    once = sum(names[name] == 1 for name in private)
    return {
        "files": f"{len(sizes)}",
        "lines": f"{lines}",
        "file p50 / p90": f"{statistics.median(sizes):.0f} / {percentile(sizes, 0.9)}",
        "function p50 / p90": f"{statistics.median(lengths):.0f} / {percentile(lengths, 0.9)}",
        "private and used once, of all functions": f"{once / len(lengths):.0%}",
        "import lines": f"{imports / lines:.0%}",
        "comments per 1,000 lines": f"{1000 * comments / lines:.0f}",
        "must and should per MB": (
            f"{(words['must'] + words['should']) * _MEGABYTE / len(text.encode()):.0f}"
        ),
        **{f"“{word}”": f"{words[word]}" for word in MANNERED},
    }


def main(arguments: Sequence[str]) -> None:
    """Print a table with a column for each NAME=FOLDER."""
    trees = [argument.partition("=") for argument in arguments] or [("here", "=", ".")]
    columns = {}
    for name, _, folder in trees:
        own = [Path(folder, package) for package in PROJECT]
        columns[name] = measured([one for one in own if one.is_dir()] or [Path(folder)])
    width = max(len(row) for row in next(iter(columns.values())))
    sys.stdout.write(f"{'':{width}}" + "".join(f"{name:>14}" for name in columns) + "\n")
    for row in next(iter(columns.values())):
        cells = "".join(f"{column[row]:>14}" for column in columns.values())
        sys.stdout.write(f"{row:{width}}{cells}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
