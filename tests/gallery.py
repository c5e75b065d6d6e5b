"""Certifies two real tools that ship their model in the package index: `make gallery`.

Lingua names languages, Magika types of files. Their makers publish how often they are right; here
they are asked about ground truth that the makers did not choose. `python -m tests.gallery
[--datasets]` in an environment that has both.
"""

import argparse
import base64
import hashlib
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.models import keep, run, succeeded, write_rows
from tests.sealed_evidence import GALLERY, ROOT, sealed_document
from tests.theatre.echelon_process import echelon

FOLDER = ROOT / "fixtures" / "gallery"
PAGE = ROOT / "docs" / "gallery.md"
LANGUAGES, FILE_TYPES = FOLDER / "languages.jsonl", FOLDER / "file_types.jsonl"
SENTENCES = FOLDER / "sentences.tsv"

PUBLISHED = {
    "single_words": (0.640, "64.0 %"),
    "word_pairs": (0.887, "88.7 %"),
    "sentences": (0.985, "98.5 %"),
    "right_type": (0.99, "~99 %"),
}
"""What the makers say: Lingua's means of six languages (74, 55, 62, 64, 55, 74; 94, 81, 84, 89, 89,
95; 100, 96, 98, 99, 99, 99 per cent), and the one figure of Magika's package page."""

FEWEST_LETTERS = 5
"""Lingua's makers asked about single words of five letters and more, and pairs of ten."""

LAST = "6ac05634"
"""The files are those of this commit."""
TYPES = {
    ".css": "css", ".js": "javascript", ".json": "json", ".jsonl": "jsonl", ".md": "markdown",
    ".png": "png", ".py": "python", ".sh": "shell", ".svg": "svg", ".toml": "toml",
    ".txt": "txt", ".xz": "xz", ".yaml": "yaml", ".yml": "yaml",
}  # fmt: skip
"""Not `.html`: what has that ending here is a template for Jinja, which the ending does not say."""
PER_TYPE, MOST_BYTES = 15, 6_000


def languages() -> Iterator[dict[str, Any]]:
    """Yield a word, a pair of words and the whole of each sentence, by the hash of its line."""
    for line in SENTENCES.read_text(encoding="utf-8").splitlines():
        language, sentence = line.split("\t")
        digest = hashlib.sha256(line.encode()).hexdigest()
        words = [word.strip(".,;:!?()") for word in sentence.split()]
        at = int(digest, 16)
        long = [word for word in words if len(word) >= FEWEST_LETTERS]
        pairs = [" ".join(two) for two in itertools.pairwise(words)]
        long_pairs = [pair for pair in pairs if len(pair) >= 2 * FEWEST_LETTERS]
        for criterion, text in (
            ("single_words", long[at % len(long)]),
            ("word_pairs", long_pairs[at % len(long_pairs)]),
            ("sentences", sentence),
        ):
            yield {
                "episode_id": f"{criterion}_{digest[:12]}",
                "input_data": {"text": text},
                "expected_output": {criterion: language},
            }


def file_types() -> Iterator[dict[str, Any]]:
    """Yield the small files of each type that the repository has, drawn by the hash of the path."""
    listed = git("ls-tree", "-r", "--long", LAST).decode().splitlines()
    by_type = defaultdict[str, list[tuple[str, str]]](list)
    seen = set[str]()
    for line in listed:
        about, path = line.split("\t")
        _, _, blob, size = about.split()
        kind = TYPES.get(Path(path).suffix)
        if kind is not None and 0 < int(size) <= MOST_BYTES and blob not in seen:
            seen.add(blob)
            by_type[kind].append((hashlib.sha256(path.encode()).hexdigest(), blob))
    drawn = [(*one, kind) for kind, found in by_type.items() for one in sorted(found)[:PER_TYPE]]
    for digest, blob, kind in sorted(drawn):
        yield {
            "episode_id": f"file_{digest[:12]}",
            "input_data": as_input(git("cat-file", "blob", blob)),
            "expected_output": {"type": kind},
        }


def as_input(data: bytes) -> dict[str, str]:
    """Return a file as text where it is UTF-8, else as base64."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def git(*words: str) -> bytes:
    """Return what git prints in this repository."""
    return subprocess.run(("git", *words), cwd=ROOT, capture_output=True, check=True).stdout


def lines(episodes: Iterator[dict[str, Any]]) -> str:
    """Return episodes as JSON Lines, in an order by which no neighbour gives another away."""
    ordered = sorted(
        episodes, key=lambda one: hashlib.sha256(str(one["episode_id"]).encode()).digest()
    )
    return "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in ordered)


def table(certificates: dict[str, dict[str, Any]]) -> str:
    """Return the rows of the page: what the makers say, and what the certificates do."""
    rows = []
    for name, one in certificates.items():
        for criterion, score in one["scores"].items():
            found = one["score_intervals"][criterion]
            value, published = PUBLISHED[criterion]
            inside = "inside" if found["low"] <= value <= found["high"] else "outside"
            rows.append(
                f"| `{name}` | `{criterion}` | {published} | {score:.3f} | {found['low']:.3f} … "
                f"{found['high']:.3f} | {inside} | {one['verification_tier']} |\n"
            )
    return "".join(rows)


def main(arguments: list[str]) -> int:
    """Write the datasets, or run both tools and write what they come to."""
    parser = argparse.ArgumentParser(prog="python -m tests.gallery", description=__doc__)
    parser.add_argument("--datasets", action="store_true", help="write the datasets, run nothing")
    if parser.parse_args(arguments).datasets:
        LANGUAGES.write_text(lines(languages()), encoding="utf-8")
        FILE_TYPES.write_text(lines(file_types()), encoding="utf-8")
        return 0
    with tempfile.TemporaryDirectory(prefix="echelon-gallery-") as temporary:
        folder = Path(temporary)
        shutil.copytree(FOLDER, folder / "models")
        for name in GALLERY:
            # Only where both tools are installed can their constructs be pinned.
            draft = FOLDER / f"{name.removeprefix('gallery_')}.yaml"
            succeeded(echelon("pin", "--check", draft, home=folder / "home"))
            keep(name, run(folder, name.removeprefix("gallery_")), folder)
    sealed = {name: sealed_document(name, "certificate.json") for name in GALLERY}
    rows = table(sealed)
    sys.stdout.write(rows)
    write_rows("gallery_", rows, PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
