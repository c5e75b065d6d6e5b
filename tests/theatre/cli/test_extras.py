"""What a light installation and another system cannot do ends in one line that says what helps."""

import json
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import theatre
from tests.theatre.cli.doubler import run, write_module, write_theatre
from tests.theatre.echelon_process import CARTOGRAPH, REPOSITORY, environment
from theatre.cli import cli
from theatre.cli.exits import MODULES_BY_EXTRA, POSIX_ONLY, run_guarded
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import MissingExtraError
from theatre.engine.oracle_contract import pinned_version

# What Windows has neither in its standard library nor in these modules of it.
ON_WINDOWS = f"""
import contextlib, io, json, os, signal, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {sorted(POSIX_ONLY)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

for name in {sorted(POSIX_ONLY)!r}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
for module, names in (
    (os, "O_NOFOLLOW O_NONBLOCK O_CLOEXEC O_DIRECTORY fork getuid geteuid killpg pidfd_open"),
    (signal, "SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGCHLD pthread_sigmask setitimer"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
from theatre.cli import main
for command in json.load(sys.stdin):
    sys.argv = ["echelon", *command]
    told = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(told[0]), contextlib.redirect_stderr(told[1]):
            main()
    except SystemExit as end:
        print(json.dumps([end.code, *(one.getvalue() for one in told)]))
"""


def on_windows(home: Path, *commands: tuple[str | Path, ...]) -> list[tuple[int, str, str]]:
    """Return code, stdout and stderr of each command, which share one process."""
    ended = subprocess.run(
        [sys.executable, "-c", ON_WINDOWS],
        env=environment(home),
        cwd=REPOSITORY,
        input=json.dumps(commands, default=str),
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return [tuple(json.loads(line)) for line in ended.stdout.splitlines()]


def test_without_what_only_posix_has_bundles_are_checked_and_nothing_is_run(tmp_path: Path) -> None:
    version = write_module(tmp_path)
    template = write_theatre(
        tmp_path, adapter_type="python", endpoint="doubling:double", version=version
    )
    bundle = Path(run(template).document["bundle_path"])
    forged = shutil.copytree(bundle, tmp_path / "forged")
    certificate = forged / "certificate.json"
    document = json.loads(certificate.read_bytes())
    certificate.write_text(json.dumps(document | {"composite_score": 0.9}), encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    checked, shown, helped, refused, *others = on_windows(
        tmp_path / "home",
        ("check", bundle),
        ("inspect", bundle / "certificate.json"),
        ("--help",),
        ("check", forged),
        ("theatre", "run", CARTOGRAPH),
        ("theatre", "commit", CARTOGRAPH),
        ("demo",),
    )
    assert (checked[0], checked[2]) == (0, "")
    assert checked[1].endswith("valid, logged (signed by your own key): 38 checks\n")
    assert (shown[0], "composite" in shown[1], shown[2], helped[0]) == (0, True, "", 0)
    assert (refused[0], "\nnot valid (" in refused[1]) == (10, True)
    for code, stdout, stderr in others:
        assert (code, stdout) == (1, "")
        (said,) = stderr.splitlines()
        assert said.startswith(
            "error (wrong-system): expected Linux or macOS, got a system without "
        )
    assert len(others) == 3
    assert sorted(tmp_path.rglob("*")) == before


def test_each_module_of_an_extra_comes_with_that_extra_alone() -> None:
    """The table that names an extra for a module agrees with pyproject.toml."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {
        extra: {canonicalize_name(Requirement(line).name) for line in lines}
        for extra, lines in project["optional-dependencies"].items()
    }
    core = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    packages = metadata.packages_distributions()
    for extra, modules in MODULES_BY_EXTRA.items():
        for module in modules:
            names = {canonicalize_name(name) for name in packages[module]}
            assert not names & core
            # starlette comes with fastapi.
            assert names & wanted[extra] or module == "starlette", module


WITHOUT_A_JUDGE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {"anthropic", "httpx2"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from theatre.cli import main
sys.argv = ["echelon", *sys.argv[1:]]
main()
"""


def test_a_command_that_asks_a_judge_says_which_extra_has_it(tmp_path: Path) -> None:
    debate = REPOSITORY / "fixtures/debates/scripted/wool_prices_after_the_drought-2-posthoc.json"
    command = ("debate", "evaluate", debate, "--evaluator", "judge")
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_JUDGE, *command],
        env=environment(tmp_path) | {"ANTHROPIC_API_KEY": "no provider is asked"},
        capture_output=True,
        check=False,
        encoding="utf-8",
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "error (missing-extra): expected the packages of the extra models, got an installation "
        "without them: pip install 'echelon-theatre[models]'\n"
    )


@pytest.mark.parametrize(
    ("sdk", "kind", "settings", "extra"),
    [
        ("mcp", "mcp", {"tool": "t", "tool_sha256": "0" * 64}, "mcp"),
        ("openai", "openai", {"model": "m", "prompt": "p"}, "models"),
        (
            "anthropic",
            "anthropic",
            {"model": "m", "prompt": "p", "parameters": {"max_tokens": 9}},
            "models",
        ),
    ],
)
def test_a_construct_whose_sdk_is_not_installed_names_the_extra(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    sdk: str,
    kind: str,
    settings: JsonObject,
    extra: str,
) -> None:
    """On the command line, and for who calls `theatre.run`."""
    place = "http://127.0.0.1:9/v1"
    path = write_theatre(
        tmp_path,
        adapter_type=kind,
        endpoint=place,
        version=pinned_version(kind, place, settings),
        config={"adapter_settings": settings},
        schema_version="2.2.0",
    )
    for name, value in (("ECHELON_HOME", str(tmp_path)), ("ECHELON_OUTBOUND_ALLOW", "127.0.0.1")):
        monkeypatch.setenv(name, value)
    # As the import system has it of a module that is not there.
    monkeypatch.setitem(sys.modules, sdk, None)
    said = (
        f"expected the packages of the extra {extra}, got an installation without them: "
        f"pip install 'echelon-theatre[{extra}]'"
    )
    assert run_guarded(cli, ["theatre", "run", str(path)]) == 1
    assert capsys.readouterr().err == f"error (missing-extra): {said}\n"
    with pytest.raises(MissingExtraError) as missing:
        theatre.run(path, store=tmp_path / "store")
    assert str(missing.value) == said
