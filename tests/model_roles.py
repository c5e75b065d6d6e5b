"""Asks a real model to summarise, to debate and to act in a grid: a part of `make models`.

In each role it stands next to two programs that ship, an honest one and a liar, on the same few
episodes; each gets a certificate, and the three bundles of a role are packed as one archive. The
endpoint is that of `tests.models`. `python -m tests.model_roles [ROLE…]`.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.model_judge import MEASURES
from tests.models import (
    CRITERION,
    FOLDER,
    LAST,
    NAME,
    PAGE,
    PORT,
    allowed,
    key_settings,
    server,
    short,
    succeeded,
    wait_for_health,
)
from tests.sealed_evidence import (
    JUDGE,
    MODELS,
    ROOT,
    TEMPLATES,
    archive_of,
    pack,
    sealed_document,
    unpacked,
)
from tests.theatre.echelon_process import echelon
from theatre.engine.canonical_json import sha256_hex
from theatre.engine.oracle_contract import pinned_version
from theatre.oracles.construct_registry import ConstructRegistry, construct_version
from theatre.verification.local_history import Selection, read_history
from theatre.verification.records import dataset_lines
from theatre.verification.template import OracleUnderTest, Terms, oracle_template

Document = dict[str, Any]
CONSTRUCTS = ROOT / "fixtures" / "constructs"
AXION_FILES = (
    FOLDER / "gridworld.py",
    FOLDER / "prompts" / "axion.txt",
    *(CONSTRUCTS / "axion" / f"{name}.py" for name in ("model", "proposing", "world")),
)
AXION_PORT = 8432
LOCAL = f"http://127.0.0.1:{PORT}/v1"
NEWEST, MOST_CHARACTERS, CHANGES = 150, 1_200, 12
"""Of the newest commits those whose diff is small enough for the model, and how many are drawn."""
DEBATES, WORLDS = 2, 4
"""Cases of each play (with and without control, and pairs of probes), and worlds."""
PATIENCE = 900
"""Seconds for one answer: a busy machine waits, and the model is not to be blamed for it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which model, and where."""

    url: str = LOCAL
    model: str = NAME

    @property
    def construct_id(self) -> str:
        """Return its id as a construct."""
        return f"models.{short(self.model)}"


@dataclass(frozen=True, slots=True)
class Role:
    """What a model is asked to be, next to an honest program and a liar."""

    programs: tuple[str, str]
    dataset: Callable[[], bytes]
    template: Callable[[], Document]
    job: str
    headline: str
    """What the page says first: the job in words, and one criterion."""
    answers: Document | None = None
    """The JSON Schema of an answer; None where a program asks the model and fills its forms."""
    max_tokens: int = 0


def text(limit: int) -> Document:
    """Return the schema of a text."""
    return {"type": "string", "maxLength": limit}


def schema(**properties: Document) -> Document:
    """Return the schema of an object that has all of these members and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": dict(properties),
        "required": list(properties),
    }


@cache
def changes() -> bytes:
    """Return small changes of this repository's history, drawn by the hash of their commits."""
    newest = read_history(ROOT, Selection(commit_range=LAST, limit=NEWEST))
    small = [one for one in newest if len(one.diff_content) <= MOST_CHARACTERS]
    small.sort(key=lambda one: hashlib.sha256(one.id.encode()).digest())
    return dataset_lines(small[:CHANGES])


def first_of_each(name: str, kind: str, count: int) -> bytes:
    """Return the first episodes of a shipped dataset of each `kind` of input, in its order."""
    kept: list[bytes] = []
    seen: dict[str, int] = {}
    for line in (ROOT / "fixtures" / "ground_truth" / name).read_bytes().splitlines(keepends=True):
        found = json.loads(line)["input_data"][kind]
        seen[found] = seen.get(found, 0) + 1
        if seen[found] <= count:
            kept.append(line)
    return b"".join(kept)


def summarising() -> Document:
    """Return the built-in template of oracles, which keeps its data in the bundle here."""
    terms = Terms(
        weights=dict.fromkeys(("precision", "recall", "reply_accuracy"), 1 / 3),
        timeout_seconds=PATIENCE,
        ground_truth_source="CUSTOM",
        minimum_replays=CHANGES,
        max_retries=0,
    )
    oracle = OracleUnderTest(construct_id="", version="", adapter_type="", endpoint="")
    return oracle_template(oracle, terms, "")


def shipped(name: str) -> Callable[[], Document]:
    """Return what reads a shipped template."""
    return lambda: json.loads((TEMPLATES / name).read_bytes())


ROLES = {
    "summariser": Role(
        ("change_extractive", "change_hallucinating"),
        changes,
        summarising,
        "summarises changes",
        "precision",
        schema(
            follow_up_response=text(80),
            key_claims={"type": "array", "maxItems": 3, "items": text(80)},
            summary=text(160),
        ),
        400,
    ),
    "debater": Role(
        ("debate.reviser", "debate.pleaser"),
        lambda: first_of_each("product_debate_control_v1.jsonl", "play", DEBATES),
        shipped("product_debate_control_v1.json"),
        "debates",
        "turned_and_kept",
        schema(content=text(160), final_answer={"enum": ["BUY", "SELL", "HOLD"]}),
        200,
    ),
    "axion": Role(
        ("axion.honest", "axion.pseudo"),
        lambda: first_of_each("product_axion_v1.jsonl", "scenario", WORLDS // 4),
        shipped("product_axion_pseudo_v1.json"),
        "acts in a grid",
        "p5_worlds",
    ),
}


def construct_of(name: str, asked: Asked) -> Document:
    """Return how a template names the model in a role: adapter, endpoint, settings and version."""
    role = ROLES[name]
    if role.answers is None:
        files = {path.name: sha256_hex(path.read_bytes()) for path in AXION_FILES}
        settings: Document = {"model": asked.model, "files": files}
        return {
            "adapter_type": "http",
            "adapter_endpoint": f"http://127.0.0.1:{AXION_PORT}/",
            "version": pinned_version("http", asked.url, settings),
        }
    prompt = (FOLDER / "prompts" / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")
    form = {"name": name, "strict": True, "schema": role.answers}
    settings = {
        "model": asked.model,
        "prompt": prompt,
        "parameters": {
            "temperature": 0,
            "seed": 1,
            "max_tokens": role.max_tokens,
            "response_format": {"type": "json_schema", "json_schema": form},
        },
        "answer": {"from": "json"},
        **key_settings(),
    }
    return {
        "adapter_type": "openai",
        "adapter_endpoint": asked.url,
        "adapter_settings": settings,
        "version": pinned_version("openai", asked.url, settings),
    }


def template_of(name: str, construct_id: str, asked: Asked) -> Document:
    """Return what a run of a construct in a role commits to, on the few episodes of the role."""
    role = ROLES[name]
    document = role.template()
    if construct_id in role.programs:
        program = ConstructRegistry.load(CONSTRUCTS / "constructs.toml").find(construct_id)
        place: Document = {
            "adapter_type": "local",
            "adapter_endpoint": f"construct:{construct_id}",
            "version": construct_version(program),
        }
    else:
        place = construct_of(name, asked)
    config = document["product_theatre_config"]
    pins = document["version_pins"]
    step, *others = document["resolution_programme"]
    return {
        **document,
        "schema_version": "2.2.0",
        "theatre_id": f"product_models_{name}_v1",
        "display_name": f"{construct_id} as {name}",
        "version_pins": {
            **pins,
            "constructs": {construct_id: place["version"]},
            "adapter_version": f"{place['adapter_type']}@1",
        },
        "dataset_hashes": {config["replay_dataset_id"]: sha256_hex(role.dataset())},
        "resolution_programme": [
            {**step, "construct_id": construct_id, "timeout_seconds": PATIENCE},
            *others,
        ],
        "product_theatre_config": {
            **{one: value for one, value in config.items() if one != "disclosure"},
            **{one: value for one, value in place.items() if one != "version"},
            "construct_under_test": construct_id,
            "replay_data_path": f"{name}.jsonl",
        },
    }


@contextlib.contextmanager
def agent(version: str, asked: Asked) -> Iterator[None]:
    """Serve the program that asks the model what an agent of the grid does."""
    paths = (FOLDER, CONSTRUCTS / "axion", os.environ.get("PYTHONPATH", ""))
    environment = os.environ | {
        "MODEL_URL": asked.url,
        "MODEL": asked.model,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    words = ("--port", str(AXION_PORT), "--folder", str(FOLDER), "--version", version)
    with subprocess.Popen(
        [sys.executable, "-m", "theatre.construct_kit", *words, "gridworld:act"],
        env=environment,
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            wait_for_health(process, f"http://127.0.0.1:{AXION_PORT}/healthz")
            yield
        finally:
            process.terminate()


def run(folder: Path, name: str, construct_id: str, asked: Asked) -> Path:
    """Run a construct in a role; return its bundle, which the check finds valid and logged."""
    template = template_of(name, construct_id, asked)
    (folder / f"{name}.jsonl").write_bytes(ROLES[name].dataset())
    path = folder / f"{name}-{construct_id}.json"
    path.write_text(json.dumps(template), encoding="utf-8")
    version = template["version_pins"]["constructs"][construct_id]
    is_agent = template["product_theatre_config"]["adapter_type"] == "http"
    home, options = folder / "home", ("--json", "--quiet", "--concurrency", "1")
    began = time.monotonic()
    with agent(version, asked) if is_agent else contextlib.nullcontext():
        ended = echelon(
            "theatre", "run", path, *options, home=home, more=allowed(), patience=86_400
        )
    bundle = Path(succeeded(ended).document["bundle_path"])
    checked = succeeded(echelon("check", bundle, "--json", home=home, patience=3_600))
    took = time.monotonic() - began
    verdict = checked.document["verdict"]
    sys.stdout.write(f"{name}, {construct_id}: {verdict}, {took:.0f} s\n")
    sys.stdout.flush()
    return bundle


def table(archive: str) -> str:
    """Return the table of the page for an archive: a column for each construct of the role."""
    found = certificates(archive)
    first = next(iter(found.values()))
    rows = [
        (f"n = {first['episode_counts']['total']}", [f"`{one}`" for one in found]),
        ("---", ["---" for _ in found]),
        *(
            (f"`{one}`", [measured(each, one) for each in found.values()])
            for one in first["scores"]
        ),
        ("answered", [f"{one['coverage']:.3f}" for one in found.values()]),
        ("version", [one["version_source"] for one in found.values()]),
        ("tier", [one["verification_tier"] for one in found.values()]),
        ("caps", [capped(one["caps"]) for one in found.values()]),
        ("findings", [capped(one["findings"]) for one in found.values()]),
    ]
    return "".join(f"| {' | '.join([name, *cells])} |\n" for name, cells in rows)


def summary() -> str:
    """Return the first table of the page: one row a job, model, honest program, liar."""
    sorting = [sealed_document(one, "certificate.json") for one in reversed(MODELS)]
    jobs = [("sorts commits", CRITERION, sorting)]
    for name, role in ROLES.items():
        honest, liar, model = certificates(f"models_{name}").values()
        jobs.append((role.job, role.headline, [model, honest, liar]))
    rows = [
        f"| {job} | `{criterion}` | {found[0]['episode_counts']['total']} | "
        + " | ".join(measured(one, criterion) for one in found)
        for job, criterion, found in jobs
    ]
    judge, words = (sealed_document(JUDGE, f"{one}.json") for one in reversed(MEASURES))
    n = judge["labelled_set"]["claims"]
    cells = (within(one["balanced_accuracy"]) for one in (judge, words))
    rows.insert(1, f"| judges claims | balanced accuracy | {n} | {' | '.join(cells)} | ")
    return "".join(f"{row.rstrip()} |\n" for row in rows)


def certificates(archive: str) -> dict[str, dict[str, Any]]:
    """Return construct → certificate of an archive: honest program, liar and model."""
    with tempfile.TemporaryDirectory(prefix="echelon-roles-") as folder:
        return {
            one.name: json.loads((one / "certificate.json").read_bytes())
            for one in sorted(unpacked(archive, Path(folder)).iterdir(), key=placed)
        }


def placed(bundle: Path) -> tuple[bool, bool, str]:
    """Order the constructs of a role: honest program, liar, model."""
    programs = [role.programs for role in ROLES.values()]
    is_program = any(bundle.name in one for one in programs)
    return (not is_program, not any(bundle.name == one[0] for one in programs), bundle.name)


def measured(certificate: dict[str, Any], criterion: str) -> str:
    """Return a score with its interval as the page writes it; words for what there is none of."""
    found = certificate["score_intervals"][criterion]
    return within({"value": certificate["scores"][criterion], **found})


def within(found: Document) -> str:
    """Return a value with its interval, as far as there is one."""
    if found["value"] is None:
        return "not measured"
    if found["low"] is None:
        return f"{found['value']:.3f} (no interval)"
    return f"{found['value']:.3f} ({found['low']:.3f} … {found['high']:.3f})"


def capped(said: Sequence[str]) -> str:
    """Return caps or findings as the page writes them: those that name a criterion are counted."""
    counted = Counter(one.partition(":")[0] if ":" in one else one for one in said)
    return ", ".join(
        f"`{one}`" + (f" ({count})" if count > 1 else "") for one, count in counted.items()
    )


def archive_for(name: str, asked: Asked) -> str:
    """Return the name of the archive of a role: that of the small model, or of another one."""
    return f"models_{name}" + ("" if asked == Asked() else f"_{short(asked.model)}")


def archives() -> list[str]:
    """Return the archives that the page has a table of."""
    return re.findall(
        rf"^<!-- (models_(?:{'|'.join(ROLES)})\S*) -->$",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )


def role_of(archive: str) -> str:
    """Return the role that an archive is of."""
    return archive.split("_")[1]


def write_table(archive: str) -> None:
    """Write the table of an archive behind its mark on the page; at the end where there is none."""
    page = PAGE.read_text(encoding="utf-8")
    mark = f"<!-- {archive} -->\n"
    if mark not in page:
        page += f"\n## Another model: `{archive}`\n\n{mark}"
    old = re.compile(rf"{re.escape(mark)}(?:\|.*\n)*")
    PAGE.write_text(old.sub(lambda _: f"{mark}{table(archive)}", page), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run model, honest program and liar in each role; pack what came of it, write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.model_roles", description=__doc__)
    parser.add_argument("roles", nargs="*", metavar="ROLE", help=f"of {', '.join(ROLES)}")
    names = parser.parse_args(arguments).roles or list(ROLES)
    url, model = (os.environ.get(f"ECHELON_MODELS_{one}") for one in ("URL", "MODEL"))
    asked = Asked(url or LOCAL, model or NAME)
    # Prompts of a debate begin alike: with it the server keeps what it has read of them.
    with contextlib.nullcontext() if url else server("--swa-full"):
        for name in names:
            archive = archive_for(name, asked)
            with tempfile.TemporaryDirectory(prefix="echelon-roles-") as temporary:
                folder = Path(temporary)
                for construct_id in (*ROLES[name].programs, asked.construct_id):
                    kept = folder / archive / construct_id
                    shutil.copytree(run(folder, name, construct_id, asked), kept)
                pack(folder / archive, archive)
            write_table(archive)
            size = archive_of(archive).stat().st_size
            sys.stdout.write(f"{archive}: packed, {size} bytes: read the page again\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
