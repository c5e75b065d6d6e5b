"""`echelon reproduce` of every shipped theatre that rests on constructs alone: equal, or found out.

`make test` finds one family after another out over a few episodes; `make soak-data` makes every
theatre again with all of them, `make soak` finds each out. The sealed bundles in `docs/evidence`
come out again in their own test.
"""

import asyncio
import os
from pathlib import Path

import pytest

from tests.theatre.axion.axion_theatres import with_installed_runners
from tests.theatre.forked_echelon import forked
from tests.theatre.runs import Finished, ScriptedAdapter, Stage
from tests.theatre.thinned import FIXTURES, thinned
from tests.theatre.verification.verify_command import verify
from theatre.api.connections import open_adapters
from theatre.api.workspace import Workspace
from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object
from theatre.engine.oracle_contract import Attempt, OracleAdapter, OracleInvocationRequest
from theatre.engine.templates import product_template

SOAK = os.environ.get("ECHELON_SOAK") == "1"
TEMPLATES = FIXTURES / "templates"
RATED = {"product_easel_v1"}
THEATRES = sorted(
    path.stem for path in TEMPLATES.glob("product_*_v1.json") if path.stem not in RATED
)
FAMILIES = {"product_axion_v1": 26, "product_observer_v1": 30}
"""Plays and a service: `make test` takes every so many episodes. A program on stdin: Cartograph."""


def shipped(name: str, folder: Path) -> Path:
    """Return the file of a shipped template, with its data beside it where that is thinned."""
    path = TEMPLATES / f"{name}.json"
    if SOAK:
        return path
    template = thinned(parse_object(path.read_bytes()), folder / "data", step=FAMILIES[name])
    few = folder / "data" / path.name
    few.write_bytes(canonical_bytes(template))
    return few


def made(template: Path, home: Path) -> Path:
    """Run a template by the command line; return its bundle."""
    answer = forked("theatre", "run", template, "--json", "--quiet", home=home)
    assert answer.code == 0, answer.stdout + answer.stderr
    return Path(answer.document["bundle_path"])


def reproduced(bundle: Path, home: Path, *options: str | Path) -> tuple[int, JsonObject]:
    answer = forked("reproduce", bundle, *options, "--json", "--quiet", home=home)
    return answer.code, answer.document


@pytest.mark.parametrize("name", THEATRES)
def test_a_shipped_theatre_comes_out_again(tmp_path: Path, name: str) -> None:
    bundle = made(TEMPLATES / f"{name}.json", tmp_path / "home")
    code, said = reproduced(bundle, tmp_path / "elsewhere")
    assert (code, said["verdict"], said["episodes_that_differ"]) == (0, "equal", 0)


def test_a_theatre_with_a_construct_of_its_own_and_a_verification_come_out_again(
    tmp_path: Path,
) -> None:
    folder = TEMPLATES / "versions"
    own = made(folder / "product_numerals_v1.json", tmp_path / "home")
    verified = Path(verify(tmp_path).document["bundle_path"])
    for bundle, constructs in ((own, folder), (verified, tmp_path)):
        code, said = reproduced(bundle, tmp_path / "elsewhere", "--constructs", constructs)
        assert (code, said["verdict"], said["episodes_that_differ"]) == (0, "equal", 0)


class Edited(ScriptedAdapter):
    """A construct, but for the first episode: answers to that are empty. It bears its version."""

    def __init__(self, honest: OracleAdapter) -> None:
        super().__init__(
            lambda _: {"output_data": {}}, pin=honest.pin, version=honest.computed_version
        )
        self._honest = honest

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Answer what belongs to the first episode; hand on every other request."""
        if not self.asked or self.asked[0].episode_id == request.episode_id:
            return await super().invoke(request)
        return await self._honest.invoke(request)


def tampered(template: Path, folder: Path) -> Finished:
    """Run a template with one answer that its construct never gave: a bundle without a flaw."""
    document = parse_object(template.read_bytes())
    stage = Stage(folder / "run", document, data=FIXTURES if SOAK else template.parent)
    workspace = Workspace.from_environment({"ECHELON_HOME": str(folder / "run")})

    async def run() -> Finished:
        async with open_adapters(
            product_template(document), workspace, template.parent, headers_env={}
        ) as opened:
            *others, last = opened
            adapters = {name: opened[name] for name in others} | {last: Edited(opened[last])}
            return await stage.perform(adapters, around=with_installed_runners)

    return asyncio.run(run())


@pytest.mark.parametrize("name", THEATRES if SOAK else FAMILIES)
def test_one_answer_that_the_construct_never_gave_is_found(tmp_path: Path, name: str) -> None:
    bundle = tampered(shipped(name, tmp_path), tmp_path).bundle
    checked = forked("check", bundle, home=tmp_path / "home")
    assert checked.stdout.splitlines()[-1].startswith("consistent"), checked.stdout
    code, said = reproduced(bundle, tmp_path / "elsewhere")
    assert (code, said["verdict"], said["episodes_that_differ"]) == (10, "different", 1)
