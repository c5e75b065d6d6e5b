"""Refuses constructs whose own files hold the questions that they are to be certified on.

Isolation keeps a program from the ground truth, and a copy of it among the listed files would give
it back. What this sees and what it cannot see: docs/adversaries.md, "By heart".
"""

import heapq
import json
import mmap
import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from theatre.engine.canonical_json import (
    MAX_INPUT_DEPTH,
    JsonObject,
    JsonValue,
    canonical_bytes,
    parse_object,
)
from theatre.engine.errors import CanonicalisationError, ParseError
from theatre.engine.replay import DatasetSource
from theatre.engine.replay.context import DatasetReader
from theatre.engine.scoring.data_audit import string_leaves
from theatre.engine.templates import ProductTheatreTemplate
from theatre.oracles.construct_files import file_hash, listed_files
from theatre.oracles.construct_registry import RegisteredConstruct
from theatre.oracles.endpoints import Places, local_programs
from theatre.oracles.errors import DatasetCopyError

MIN_EPISODES = 10
"""Fewer questions in a construct's files may be its examples, or stand there by chance."""

MAX_EPISODES = 1000
"""So many episodes of a dataset are looked for: those with the smallest SHA-256 of their lines."""

RUN_OF_WORDS = 8
"""A shorter run of words may stand in two texts by chance."""

MAX_TEXT_BYTES = 64 * 1024 * 1024
"""In a larger file, and in one that is no UTF-8, only a copy byte by byte is looked for."""

_HEAD_BYTES = 64 * 1024
"""A file that holds so much of a dataset's beginning holds a copy of it."""

# Words of a whole file would take twenty times its size; a run of them fits into the overlap.
_PIECE, _OVERLAP = 1024 * 1024, 16 * 1024

_WORD = re.compile(r"\w+")
_ESCAPE = re.compile(r"""\\(?:(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U000[0-9a-fA-F]{5})|[nrtbf"'/])""")
_Run = tuple[str, ...]
_Runs = tuple[_Run, ...]


class _Dataset(NamedTuple):
    """What is looked for of one committed dataset.

    `objects` are digests of whole lines and of inputs, `runs` the words at the beginning, in the
    middle and at the end of a text of an input; each with the number of its line.
    """

    name: str
    sha256: str
    head: bytes
    objects: dict[bytes, int]
    runs: dict[_Runs, int]

    def held_by(self, objects: Collection[bytes], runs: Collection[_Run]) -> set[int]:
        """Return which lines are there, as objects or by all of their words that are looked for."""
        by_object = {line for digest, line in self.objects.items() if digest in objects}
        return by_object | {
            line for wanted, line in self.runs.items() if all(run in runs for run in wanted)
        }


def refuse_dataset_copies(
    template: ProductTheatreTemplate, places: Places, datasets: DatasetSource
) -> None:
    """Raise DatasetCopyError where a program that is run here lists what it is to be asked.

    That is a file that holds a committed dataset byte by byte, or files that together hold
    MIN_EPISODES different ones of its lines: as the same JSON, or the words of their inputs.
    DatasetError for a dataset that is missing or changed. Reads all of these files: it blocks.
    """
    programs = local_programs(template, places)
    if not programs:
        return
    config, hashes = template.product_theatre_config, template.dataset_hashes
    committed = []
    for name, path in config.data_paths().items():
        with closing(datasets.open(path, sha256=hashes[name])) as dataset:
            committed.append(_looked_for(name, hashes[name], dataset))
    wanted = frozenset(run for one in committed for runs in one.runs for run in runs)
    for program in programs:
        objects: set[bytes] = set()
        runs: set[_Run] = set()
        for file in listed_files(program.folder, program.files):
            _refuse_whole_copy(program, file, committed)
            text = _text_of(program.folder / file)
            objects.update(map(_digest, _objects_in(text)))
            runs.update(wanted.intersection(_runs_of(text)))
        for one in committed:
            held = one.held_by(objects, runs)
            if len(held) >= MIN_EPISODES:
                raise _refusal(
                    program.construct_id,
                    f"files that hold at least {len(held)} lines of the dataset {one.name} "
                    f"(line {min(held)} is one)",
                )


def _looked_for(name: str, committed: str, dataset: DatasetReader) -> _Dataset:
    """Choose what is looked for, in one pass over a dataset."""
    head = b""
    for chunk in dataset.chunks():
        head += chunk[: _HEAD_BYTES - len(head)]
        if len(head) == _HEAD_BYTES:
            break
    numbered = (
        (sha256(line).digest(), number, line)
        for number, line in enumerate(dataset.lines(), start=1)
    )
    objects: dict[bytes, int] = {}
    texts: dict[int, list[_Runs]] = {}
    for _, number, line in heapq.nsmallest(MAX_EPISODES, numbered):
        record = _object_of(line)
        asked = record.get("input_data", {})
        objects |= {
            _digest(one): number for one in (record, asked) if isinstance(one, dict) and one
        }
        texts[number] = [*filter(None, map(_ends_and_middle, string_leaves(asked)))]
    # Of each input the text that fewest others have: the same instructions may stand in all.
    seen = Counter(runs for found in texts.values() for runs in found)
    runs = {min(found, key=seen.__getitem__): number for number, found in texts.items() if found}
    return _Dataset(name=name, sha256=committed, head=head.strip(), objects=objects, runs=runs)


def _ends_and_middle(text: str) -> _Runs:
    """Return the first, middle and last run of words of a text; nothing for a shorter one."""
    words = _WORD.findall(text.casefold())
    if len(words) < RUN_OF_WORDS:
        return ()
    starts = (0, (len(words) - RUN_OF_WORDS) // 2, len(words) - RUN_OF_WORDS)
    return tuple(tuple(words[start : start + RUN_OF_WORDS]) for start in starts)


def _object_of(line: bytes) -> JsonObject:
    """Return the object that a line is; an empty one where it is none: a run refuses that."""
    with suppress(ParseError):
        return parse_object(line, max_depth=MAX_INPUT_DEPTH)
    return {}


def _refuse_whole_copy(program: RegisteredConstruct, file: str, committed: list[_Dataset]) -> None:
    path = program.folder / file
    digest = file_hash(path)
    for dataset in committed:
        if digest == dataset.sha256 or _contains(path, dataset.head):
            raise _refusal(program.construct_id, f"{file}, which holds the dataset {dataset.name}")


def _contains(file: Path, part: bytes) -> bool:
    with file.open("rb") as opened:
        # An empty file cannot be mapped.
        if not part or file.stat().st_size < len(part):
            return False
        with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(part) >= 0


def _text_of(file: Path) -> str:
    """Return what a file says; nothing where it is no text that is looked at."""
    with suppress(UnicodeDecodeError):
        if file.stat().st_size <= MAX_TEXT_BYTES:
            return file.read_text(encoding="utf-8")
    return ""


def _objects_in(text: str) -> Iterator[JsonObject]:
    """Yield every JSON object in a JSON document, or in JSON lines."""
    for part in (text, *text.split("\n")):
        if not part.lstrip().startswith(("{", "[")):
            continue
        with suppress(ValueError, RecursionError):
            yield from _objects_of(json.loads(part))
            if part is text:
                return


def _objects_of(value: JsonValue) -> Iterator[JsonObject]:
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield one
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)


def _digest(value: JsonObject) -> bytes:
    """Return what tells an object from others; nothing for one without a canonical form."""
    with suppress(CanonicalisationError, RecursionError):
        return sha256(canonical_bytes(value)).digest()
    return b""


def _runs_of(text: str) -> Iterator[_Run]:
    """Yield the words of a text from each of them on, as written in code or JSON or as they are."""
    for start in range(0, len(text), _PIECE):
        piece = text[start : start + _PIECE + _OVERLAP]
        plain = _ESCAPE.sub(lambda one: chr(int(one[1][1:], 16)) if one[1] else " ", piece)
        words = _WORD.findall(plain.casefold())
        yield from zip(*(words[first:] for first in range(RUN_OF_WORDS)), strict=False)


def _refusal(construct_id: str, got: str) -> DatasetCopyError:
    return DatasetCopyError(
        f"expected files of {construct_id} without the ground truth of the template, got {got}: "
        "take it out of the construct's files, or certify the construct on episodes that it does "
        "not have"
    )
