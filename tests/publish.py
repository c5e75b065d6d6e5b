"""Writes anew what is published of the shipped theatres: `python -m tests.publish [--readme]`.

Pins of templates, commitment hashes, and the results of really running each theatre; the bundles
in `docs/evidence` that have become stale; then every page that quotes one of them. Idempotent. It
says what changed, and warns where a score did: a change of versions alone changes no score of a
construct that is the same every time.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.demonstration import shared_demonstration
from tests.docs.test_axion_page import PAIR, PROBES, PSEUDO, pair_row, scores
from tests.sealed_evidence import seal_what_is_stale, sealed_document
from tests.theatre.axion.axion_theatres import NAMES, run_axion
from tests.theatre.cartograph_runs import run_cartograph
from tests.theatre.debate.debate_theatres import run_debates
from tests.theatre.easel_requests_runs import run_requests
from tests.theatre.easel_runs import easel_adapters, easel_stage, items_of, let_demo_reviewers_score
from tests.theatre.observer_runs import run_observer
from tests.theatre.runs import Finished
from theatre.cli.demo.reviewers import REVIEWERS, demo_scores, score_file
from theatre.engine.canonical_json import JsonObject, parse_object, sha256_hex
from theatre.engine.commitment import CommitmentProtocol
from theatre.engine.oracle_contract import program_version
from theatre.oracles.construct_registry import ConstructRegistry, construct_version

ROOT = Path(__file__).parents[1]
TEMPLATES = ROOT / "fixtures" / "templates"
SHIPPED = ROOT / "fixtures" / "constructs" / "constructs.toml"
RATINGS = ROOT / "fixtures" / "ratings" / "product_easel_v1"
EXAMPLE = ROOT / "docs" / "templates.md"
HASHES = ("per_episode_sha256", "results_hash")
WORKERS = 2
QUOTING = ("README.md", "docs/*.md", "docs/*.json", "backend/api/*.json", "tests/**/*.py")
"""Where published values are quoted: whole, or their first 12 or more digits."""

AXION = {name: theatre for theatre, name in NAMES.items()}
Runner = Callable[[Path, JsonObject], Finished]


def run_easel(folder: Path, template: JsonObject) -> Finished:
    """Run Easel's theatre; write what its stand-ins give to the items that the commitment draws."""
    stage = easel_stage(folder, template=template)
    stage.run(easel_adapters())
    shown = items_of(stage)
    for name in REVIEWERS:
        (RATINGS / f"{name}.jsonl").write_bytes(score_file(demo_scores(name, shown)))
    let_demo_reviewers_score(stage)
    return stage.run(easel_adapters())


RUNNERS: Mapping[str, Runner] = {
    "product_axion": lambda folder, template: run_axion(
        folder, AXION[str(template["theatre_id"])], template=template
    ),
    "product_cartograph": lambda folder, template: run_cartograph(folder, template=template),
    "product_debate": run_debates,
    "product_easel_requests": lambda folder, template: run_requests(folder, template=template),
    "product_easel_v1": run_easel,
    "product_observer": lambda folder, template: run_observer(folder, template=template),
}

Published = dict[str, str]
"""Where a hash is published, by file and member → the hash."""
Read = Callable[[Path], str | None]


def main(arguments: list[str]) -> int:
    """Publish; return 1 where a score changed, which a person has to look at."""
    parser = argparse.ArgumentParser(prog="python -m tests.publish", description=__doc__)
    parser.add_argument(
        "--readme", action="store_true", help="also run the demo for the pages that show it"
    )
    parser.add_argument(
        "--since", metavar="COMMIT", help="pages quote what was published there, after a merge"
    )
    options = parser.parse_args(arguments)
    before = published(read_now if options.since is None else read_at(options.since))
    for path in TEMPLATES.rglob("product_*.json"):
        if not path.name.endswith(".expected.json"):
            publish_pins(path)
            publish_commitment(path)
    expected = sorted(TEMPLATES.glob("*.expected.json"))
    warnings: list[str] = []
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        for path, document in zip(expected, pool.map(results_of, expected), strict=True):
            warnings += publish_results(path, document)
    seal_what_is_stale(say)
    changes = changed(before, published(read_now) | example())
    publish_quotations(changes)
    publish_axion_figures()
    if options.readme:
        publish_transcripts()
    for warning in warnings:
        say(f"WARNING: a score changed: {warning}")
    say(f"{len(changes)} published hashes changed, {len(warnings)} scores")
    return 1 if warnings else 0


def read_now(path: Path) -> str | None:
    """Return a file as it is; None where it is not there."""
    return path.read_text(encoding="utf-8") if path.exists() else None


def read_at(commit: str) -> Read:
    """Return a reader of files as they were at a commit."""

    def read(path: Path) -> str | None:
        shown = subprocess.run(
            ["git", "show", f"{commit}:{path.relative_to(ROOT).as_posix()}"],
            cwd=ROOT,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        return shown.stdout if shown.returncode == 0 else None

    return read


def published(read: Read) -> Published:
    """Return every hash that is published of the shipped theatres."""
    found: Published = {}
    for path in sorted(TEMPLATES.rglob("product_*")):
        name, text = path.name, read(path)
        if text is None:
            continue
        if name.endswith(".commitment.txt"):
            found[name] = text.strip()
        elif name.endswith(".expected.json"):
            results = json.loads(text)
            found |= {f"{name} {one}": results[one] for one in HASHES}
        else:
            pins = json.loads(text)["version_pins"]["constructs"]
            found |= {f"{name} {one}": version for one, version in pins.items()}
    page = read(EXAMPLE) or ""
    quoted = re.search(r'"thermometer": "([0-9a-f]{64})"', page)
    return found if quoted is None else found | {EXAMPLE.name: quoted[1]}


def example() -> Published:
    """Return the version of the worked example of docs/templates.md, of its blocks as they are."""
    page = EXAMPLE.read_text(encoding="utf-8")
    source, registry = (
        re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[0]
        for language in ("python", "toml")
    )
    (entry,) = tomllib.loads(registry)["constructs"].values()
    files = {name: sha256_hex(source.encode()) for name in entry["files"]}
    return {EXAMPLE.name: program_version(entry["argv"], files)}


def changed(before: Published, now: Published) -> dict[str, str]:
    """Return old → new of what changed, but for a hash that has become several."""
    became: dict[str, set[str]] = {}
    for place, value in before.items():
        became.setdefault(value, set()).add(now.get(place, value))
    return {old: new.pop() for old, new in became.items() if len(new) == 1 and new != {old}}


def publish_pins(path: Path) -> None:
    """Write the versions of a template's constructs, as its registry computes them now."""
    text = path.read_text(encoding="utf-8")
    for construct_id, pin in json.loads(text)["version_pins"]["constructs"].items():
        version = version_of(construct_id, path.parent)
        text = text.replace(f'"{construct_id}": "{pin}"', f'"{construct_id}": "{version}"')
    write(path, text)


def version_of(construct_id: str, folder: Path) -> str:
    """Return the version of a construct in the registry of a folder, or else the shipped one."""
    own = folder / "constructs.toml"
    is_own = own.exists() and construct_id in tomllib.loads(own.read_text())["constructs"]
    return construct_version(ConstructRegistry.load(own if is_own else SHIPPED).find(construct_id))


def publish_commitment(path: Path) -> None:
    """Write the commitment hash of a template where one is published."""
    place = path.with_name(f"{path.stem}.commitment.txt")
    if place.exists():
        now = CommitmentProtocol.hash_template(parse_object(path.read_bytes()))
        write(place, f"{now}\n")


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


def publish_results(path: Path, results: JsonObject) -> list[str]:
    """Write the results of a theatre; return the scores that changed."""
    before = json.loads(path.read_text(encoding="utf-8"))
    text = json.dumps(results, indent=2, ensure_ascii=False, sort_keys=True)
    write(path, f"{text}\n")
    now = json.loads(text)
    scores = [
        f"{path.name}: {name} {before['scores'].get(name)} → {now['scores'].get(name)}"
        for name in sorted({*before["scores"], *now["scores"]})
        if before["scores"].get(name) != now["scores"].get(name)
    ]
    if before.get("separation") != now.get("separation"):
        scores.append(f"{path.name}: the separation of the pair")
    return scores


def publish_quotations(changes: Mapping[str, str]) -> None:
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


def publish_axion_figures() -> None:
    """Write the tables of docs/axion.md, whose figures follow from the coins of sealed bundles."""
    page = ROOT / "docs" / "axion.md"
    text = page.read_text(encoding="utf-8")
    pseudo = sealed_document(PSEUDO, "certificate.json")["scores"]
    for name, value in scores("product_axion_v1").items():
        row = f"| `{name}` | {value:.3f} | {pseudo[name]:.3f} |"
        text = re.sub(rf"^\| `{name}` \| [\d.]+ \| [\d.]+ \|$", row, text, flags=re.MULTILINE)
    computed = sealed_document(PAIR, "scores/aggregate.json")["computed"]
    verdicts = computed["separate_the_pair"]["verdicts"]
    before, marked, table = text.partition("<!-- pair -->\n")
    rows, _, after = table.partition("\n\n")
    shown = [*rows.splitlines()[:2], *(pair_row(one, verdicts[one]) for one in ("all", *PROBES))]
    write(page, before + marked + "\n".join(shown) + "\n\n" + after)


def publish_transcripts() -> None:
    """Write what `echelon demo` prints into the pages that show parts of it.

    A shown line stands for the next printed one of its form (only figures differ), else for the
    next that begins with the same word, else for the very next.
    """
    with tempfile.TemporaryDirectory(prefix="echelon-publish-") as folder:
        demonstration = shared_demonstration(Path(folder) / "demo")
    for page, label, printed in (
        (ROOT / "README.md", "demo", demonstration.shown),
        (ROOT / "docs" / "demo.md", "demo --verbose", demonstration.pages),
    ):
        text = page.read_text(encoding="utf-8")
        found = re.search(rf"<!-- output: {label} -->\n```\w+\n(.*?)```", text, re.DOTALL)
        if found is None:
            raise LookupError(f"{page.name} shows no output of {label}")
        lines = aligned(found[1].splitlines(), printed.strip().splitlines())
        write(page, text.replace(found[1], "".join(lines)))


def aligned(shown: list[str], printed: list[str]) -> Iterator[str]:
    """Yield the lines as printed that have the form of the shown ones; `…` stays."""
    place = 0
    for line in shown:
        if line == "…":
            yield f"{line}\n"
            continue
        coming = range(place, len(printed))
        alike = [n for n in coming if form(printed[n]) == form(line)]
        alike += [n for n in coming if printed[n].split()[:1] == line.split()[:1]]
        if not coming:
            raise LookupError(f"the demo ends before {line!r}: edit the page by hand")
        alike.append(place)
        yield f"{printed[alike[0]]}\n"
        place = alike[0] + 1


def form(line: str) -> str:
    """Return a line without its figures, hashes and widths.

    One of nothing but figures is not like an empty one: the demo prints both, in numbers that its
    coin decides.
    """
    bare = re.sub(r"[0-9a-f]*\d[0-9a-f.…-]*|(?<= )-(?= |$)|\s+", "", line)
    return bare or ("0" if line.strip() else "")


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
