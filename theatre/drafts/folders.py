"""Ground truth out of a folder: one of labels with files in it, or of texts with their answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from theatre.engine.canonical_json import JsonObject
from theatre.files.tables import TableError

_ANSWER = ".answer"


def read_folder(folder: Path) -> tuple[str, list[JsonObject]]:
    """Read LABEL/FILE, or NAME.txt with NAME.answer.txt; return the answer's name, and rows.

    Raises TableError for a mixture of both, a question without an answer or the reverse, and a
    name or text that is not UTF-8.
    """
    found = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    # .git, .ipynb_checkpoints and what editors keep are no data.
    names = [name for name in found if not any(part.startswith(".") for part in name.parts)]
    for name in names:
        _refuse_unreadable(folder, name)
    depths = {len(name.parts) for name in names}
    if len(depths) > 1:
        high, *_, deep = sorted(names, key=lambda name: len(name.parts))
        raise TableError(
            f"expected one folder for each label in {folder} with nothing but files in it, or "
            f"NAME.txt with NAME.answer.txt and no folders, got {high} next to {deep}: move or "
            "remove one of them"
        )
    if depths <= {1}:
        return "answer", list(_answered(folder, names))
    return "label", [
        {"id": name.as_posix(), "text": _text(folder / name), "label": name.parent.name}
        for name in names
    ]


def _refuse_unreadable(folder: Path, name: Path) -> None:
    try:
        str(name).encode()
    except UnicodeEncodeError as error:
        raise TableError(
            f"expected names in UTF-8 in {folder}, got {str(name)!a}: rename it"
        ) from error


def _answered(folder: Path, names: Sequence[Path]) -> Iterable[JsonObject]:
    questions = [name for name in names if not name.stem.endswith(_ANSWER)]
    answers = {Path(f"{name.stem}{_ANSWER}.txt"): name for name in questions}
    there = set(names)
    for name in sorted(there - set(questions)):
        if name not in answers:
            raise TableError(
                f"expected a question to {folder / name} next to it, got no such file: an answer "
                f"to NAME.txt is in NAME{_ANSWER}.txt"
            )
    for answer, name in answers.items():
        if answer not in there:
            raise TableError(
                f"expected the answer to {folder / name} in {answer} next to it, got no such file: "
                "or put files into one folder for each label"
            )
        said = _text(folder / answer).strip()
        yield {"id": name.as_posix(), "text": _text(folder / name), "answer": said}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"expected UTF-8 in {path}, got other bytes: save it as UTF-8") from error
