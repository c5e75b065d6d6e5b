"""Writes anew what is published of the shipped theatres: `python -m tests.publish [--readme]`.

Pins of templates, commitment hashes, and the results of really running each theatre; then every
page that quotes one of them. Idempotent. It says what changed, and warns where a score did: a
change of versions alone changes no score of a construct that is the same every time.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.demonstration import shared_demonstration
from tests.theatre.axion.axion_theatres import NAMES, run_axion
from tests.theatre.cartograph_runs import run_cartograph
from tests.theatre.debate.debate_theatres import run_debates
from tests.theatre.easel_requests_runs import run_requests
from tests.theatre.easel_runs import run_easel
from tests.theatre.observer_runs import run_observer
from tests.theatre.runs import Finished
from theatre.engine.canonical_json import JsonObject, parse_object, sha256_hex
from theatre.engine.commitment import CommitmentProtocol
from theatre.engine.oracle_contract import program_version, served_argv
from theatre.oracles.construct_registry import ConstructRegistry, construct_version

ROOT = Path(__file__).parents[1]
TEMPLATES = ROOT / "fixtures" / "templates"
SHIPPED = ROOT / "fixtures" / "constructs" / "constructs.toml"
WORKERS = 2
QUOTING = ("README.md", "docs/*.md", "docs/*.json", "backend/api/*.json", "tests/**/*.py")
"""Where published values are quoted: whole, or their first 12 or more digits."""

AXION = {name: theatre for theatre, name in NAMES.items()}
Runner = Callable[[Path, JsonObject], Finished]
RUNNERS: Mapping[str, Runner] = {
    "product_axion": lambda folder, template: run_axion(
        folder, AXION[str(template["theatre_id"])], template=template
    ),
    "product_cartograph": lambda folder, template: run_cartograph(folder, template=template),
    "product_debate": run_debates,
    "product_easel_requests": lambda folder, template: run_requests(folder, template=template),
    "product_easel_v1": lambda folder, template: run_easel(folder, template=template),
    "product_observer": lambda folder, template: run_observer(folder, template=template),
}

Changes = dict[str, str]
"""Published before → published now."""


def main(arguments: list[str]) -> int:
    """Publish; return 1 where a score changed, which a person has to look at."""
    parser = argparse.ArgumentParser(prog="python -m tests.publish", description=__doc__)
    parser.add_argument(
        "--readme", action="store_true", help="also run the demo for the README's transcript"
    )
    options = parser.parse_args(arguments)
    changes: Changes = {}
    for path in sorted(TEMPLATES.rglob("product_*.json")):
        if not path.name.endswith(".expected.json"):
            changes |= publish_pins(path)
            changes |= publish_commitment(path)
    expected = sorted(TEMPLATES.glob("*.expected.json"))
    warnings = []
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        for path, document in zip(expected, pool.map(results_of, expected), strict=True):
            found, changed_scores = publish_results(path, document)
            changes |= found
            warnings += changed_scores
    changes |= publish_example()
    publish_quotations(changes)
    if options.readme:
        publish_transcript()
    for warning in warnings:
        say(f"WARNING: a score changed: {warning}")
    say(f"{len(changes)} published values changed, {len(warnings)} of the scores")
    return 1 if warnings else 0


def publish_pins(path: Path) -> Changes:
    """Write the versions of a template's constructs, as its registry computes them now."""
    text = path.read_text(encoding="utf-8")
    pins = json.loads(text)["version_pins"]["constructs"]
    changes = {}
    for construct_id, pin in pins.items():
        version = version_of(construct_id, path.parent)
        changes[pin] = version
        text = text.replace(f'"{construct_id}": "{pin}"', f'"{construct_id}": "{version}"')
    write(path, text)
    return changed(changes)


def version_of(construct_id: str, folder: Path) -> str:
    """Return the version of a construct in the registry of a folder, or else the shipped one."""
    own = folder / "constructs.toml"
    is_own = own.exists() and construct_id in tomllib.loads(own.read_text())["constructs"]
    return construct_version(ConstructRegistry.load(own if is_own else SHIPPED).find(construct_id))


def publish_commitment(path: Path) -> Changes:
    """Write the commitment hash of a template where one is published."""
    published = path.with_name(f"{path.stem}.commitment.txt")
    if not published.exists():
        return {}
    before = published.read_text().strip()
    now = CommitmentProtocol.hash_template(parse_object(path.read_bytes()))
    write(published, f"{now}\n")
    return changed({before: now})


def results_of(path: Path) -> JsonObject:
    """Run a theatre and return what is published of it."""
    name = path.name.removesuffix(".expected.json")
    template = parse_object(path.with_name(f"{name}.json").read_bytes())
    run = next(runner for begin, runner in RUNNERS.items() if name.startswith(begin))
    with tempfile.TemporaryDirectory(prefix="echelon-publish-") as folder:
        finished = run(Path(folder), template)
        certificate = finished.document("certificate.json")
        lines = (finished.bundle / "scores" / "per_episode.jsonl").read_bytes()
        results: JsonObject = {
            "per_episode_sha256": sha256_hex(lines),
            "results_hash": certificate["results_hash"],
            "scores": certificate["scores"],
        }
        computed = finished.document("scores/aggregate.json").get("computed")
        if isinstance(computed, dict) and "separate_the_pair" in computed:
            results["separation"] = computed["separate_the_pair"]
    return results


def publish_results(path: Path, results: JsonObject) -> tuple[Changes, list[str]]:
    """Write results; return the hashes that changed and, by theatre, the scores that did."""
    before = json.loads(path.read_text(encoding="utf-8"))
    text = json.dumps(results, indent=2, ensure_ascii=False, sort_keys=True)
    write(path, f"{text}\n")
    now = json.loads(text)
    hashes = {before[name]: now[name] for name in ("per_episode_sha256", "results_hash")}
    scores = [
        f"{path.name}: {name} {before['scores'].get(name)} → {now['scores'].get(name)}"
        for name in sorted({*before["scores"], *now["scores"]})
        if before["scores"].get(name) != now["scores"].get(name)
    ]
    if before.get("separation") != now.get("separation"):
        scores.append(f"{path.name}: the separation of the pair")
    return changed(hashes), scores


def publish_example() -> Changes:
    """Return the version of the thermometer of docs/constructs.md, whose pin is on two pages."""
    page = (ROOT / "docs" / "constructs.md").read_text(encoding="utf-8")
    found = re.search(
        r"^`thermometer\.py`:\n\n```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE
    )
    quoted = re.search(r'"construct_version": "([0-9a-f]{64})"', page)
    if found is None or quoted is None:
        raise LookupError("docs/constructs.md has no thermometer")
    files = {"thermometer.py": sha256_hex(found[1].encode())}
    return changed({quoted[1]: program_version(served_argv("thermometer:convert"), files)})


def publish_quotations(changes: Changes) -> None:
    """Write what was published anew wherever a page, an example or a test quotes it."""
    paths = {path for pattern in QUOTING for path in ROOT.glob(pattern)}
    for path in sorted(paths):
        text = path.read_text(encoding="utf-8")
        quoted = {found[0] for found in re.finditer(r"\b[0-9a-f]{12,64}", text)}
        for before, now in changes.items():
            for digits in quoted:
                if before.startswith(digits):
                    text = text.replace(digits, now[: len(digits)])
        write(path, text)


def publish_transcript() -> None:
    """Write what `echelon demo` prints into the README, which shows parts of it.

    A shown line stays where it is if the demo prints one of the same form: only digits differ.
    """
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    found = re.search(r"<!-- output: demo -->\n```\w+\n(.*?)```", text, re.DOTALL)
    if found is None:
        raise LookupError("the README shows no demo")
    with tempfile.TemporaryDirectory(prefix="echelon-publish-") as folder:
        printed = shared_demonstration(Path(folder) / "demo").pages.strip().splitlines()
    write(readme, text.replace(found[1], "".join(aligned(found[1].splitlines(), printed))))


def aligned(shown: list[str], printed: list[str]) -> Iterator[str]:
    """Yield the lines as printed that have the form of the shown ones; `…` stays."""
    place = 0
    for line in shown:
        if line == "…":
            yield f"{line}\n"
            continue
        while place < len(printed) and form(printed[place]) != form(line):
            place += 1
        if place == len(printed):
            raise LookupError(f"the demo prints no line like {line!r}: edit the README by hand")
        yield f"{printed[place]}\n"
        place += 1


def form(line: str) -> str:
    """Return a line without its figures, hashes and widths."""
    return re.sub(r"[0-9a-f]*\d[0-9a-f.…-]*|(?<= )-(?= |$)|\s+", "", line)


def changed(pairs: Mapping[str, str]) -> Changes:
    """Return those of before → now that differ."""
    return {before: now for before, now in pairs.items() if before != now}


def write(path: Path, text: str) -> None:
    """Write a file if that changes it, and say so."""
    if path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
        say(f"changed {path.relative_to(ROOT)}")


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
