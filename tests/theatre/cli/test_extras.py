"""What a light installation and another system cannot do ends in one line that says what helps."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.theatre.echelon_process import CARTOGRAPH, REPOSITORY, echelon, environment
from theatre.cli.exits import MODULES_BY_EXTRA, POSIX_ONLY

# What Windows has neither in its standard library nor in these modules of it.
ON_WINDOWS = f"""
import os, signal, sys

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
sys.argv = ["echelon", *sys.argv[1:]]
main()
"""


def on_windows(home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ON_WINDOWS, *arguments],
        env=environment(home),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
        encoding="utf-8",
    )


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    run = echelon("theatre", "run", CARTOGRAPH, "--json", home=home)
    assert run.code == 0, run.stdout
    (found,) = (path.parent for path in home.rglob("manifest.json"))
    return found


def test_without_what_only_posix_has_a_bundle_is_checked_and_a_certificate_shown(
    bundle: Path, tmp_path: Path
) -> None:
    checked = on_windows(tmp_path, "check", bundle)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.endswith("valid, logged (signed by your own key): 38 checks\n")
    shown = on_windows(tmp_path, "inspect", bundle / "certificate.json")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "composite" in shown.stdout
    assert on_windows(tmp_path, "--help").returncode == 0


def test_without_what_only_posix_has_a_forged_bundle_is_not_valid_either(
    bundle: Path, tmp_path: Path
) -> None:
    forged = tmp_path / "forged"
    for path in bundle.rglob("*"):
        if path.is_file():
            copy = forged / path.relative_to(bundle)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    certificate = forged / "certificate.json"
    document = json.loads(certificate.read_bytes())
    certificate.write_text(json.dumps(document | {"composite_score": 0.9}), encoding="utf-8")
    assert on_windows(tmp_path, "check", forged).returncode == 10


@pytest.mark.parametrize(
    "command",
    [("theatre", "run", str(CARTOGRAPH)), ("theatre", "commit", str(CARTOGRAPH)), ("demo",)],
)
def test_without_what_only_posix_has_a_command_says_so_in_one_line(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    ended = on_windows(tmp_path, *command)
    assert (ended.returncode, ended.stdout) == (1, "")
    (said,) = ended.stderr.splitlines()
    assert said.startswith("error (wrong-system): expected Linux or macOS, got a system without ")
    assert list(tmp_path.iterdir()) == []


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
        env=environment(tmp_path),
        capture_output=True,
        check=False,
        encoding="utf-8",
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "error (missing-extra): expected the packages of the extra models, got an installation "
        "without them: pip install 'echelon-theatre[models]'\n"
    )
