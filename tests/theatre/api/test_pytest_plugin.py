"""`@pytest.mark.echelon` in sessions of pytest's own, on real runs."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.theatre.cli.doubler import write_module, write_theatre
from theatre import check
from theatre.api.runs import go_on_or_commit
from theatre.api.workspace import Workspace
from theatre.files.trust_home import TRUST_HOME

pytest_plugins = ["pytester"]

TESTS = """
import doubling
import pytest

echelon = pytest.mark.echelon

@echelon(template="template.json", bound={"right": 0.6})
def test_reached():
    return doubling.double

@echelon(template="template.json", bound={"right": 0.7, "composite": 0.5})
def test_a_mean_of_one_is_not_enough():
    return doubling.double

@echelon(template="template.json", bound={"wrong": 0.1})
def test_an_unknown_criterion():
    return doubling.double

@echelon(template="none.json", bound={"right": 0.1})
def test_no_template():
    pass

@echelon(template="template.json", bound={"right": 0})
def test_a_bound_that_is_none():
    return doubling.double

@echelon(template="none.json", bound={"right": 0.9})
@echelon(template="template.json", bound={"right": 0.1})
def test_two_templates():
    return doubling.double

@echelon(template="template.json", bound={"right": 0.1})
def test_what_is_no_construct():
    return 3

def test_without_a_mark():
    pass
"""
ITSELF = """
import pytest

@pytest.mark.echelon("template.json", {"right": 0.6})
def test_function(input_data):
    if input_data["number"] == 3:
        return {"result": 7}
    return {"result": 2 * input_data["number"]}
"""


NEIGHBOUR = """
import pytest
import neighbour

@pytest.mark.echelon("template.json", {"right": 0.6})
def test_function(input_data):
    return neighbour.double(input_data)
"""


def test_a_test_file_that_needs_its_neighbour_is_refused_before_the_first_call(
    pytester: pytest.Pytester, project: Path
) -> None:
    (project / "neighbour.py").write_text("from doubling import double\n", encoding="utf-8")
    pytester.makepyfile(NEIGHBOUR)
    ended = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    ended.assert_outcomes(failed=1)
    shown = ended.stdout.str()
    assert "construct-unreachable: construct" in shown
    assert "ModuleNotFoundError: No module named 'neighbour'" in shown
    assert "nothing was asked yet" in shown
    assert not (project / "trust").exists()


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a template that names its own construct, and its module."""
    version = write_module(pytester.path)
    write_theatre(pytester.path, adapter_type="python", endpoint="doubling:double", version=version)
    monkeypatch.setenv(TRUST_HOME, str(pytester.path / "trust"))
    monkeypatch.delenv("ECHELON_HOME", raising=False)
    monkeypatch.syspath_prepend(pytester.path)
    return pytester.path


def test_a_test_fails_on_the_lower_bound_and_says_why(
    pytester: pytest.Pytester, project: Path
) -> None:
    pytester.makepyfile(TESTS)
    ended = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "error")
    ended.assert_outcomes(passed=2, failed=6)
    ended.stdout.fnmatch_lines(
        [
            "echelon: not reached in a rehearsal of *template.json",
            "  right  1.000 [[]0.676, 1.000[]], n 8: expected a lower bound of at least 0.7",
            "  expected a criterion of right, composite, got wrong",
            "not-found: expected a template file, got *none.json*",
            "expected @pytest.mark.echelon(template='…'*",
            "expected one echelon mark on a test, got several: one runs",
            "expected an echelon test to return its construct*got one that returns int",
            "*= echelon =*",
            "*::test_reached",
            "  right  1.000 [[]0.676, 1.000[]], n 8",
        ]
    )
    assert not (project / ".echelon").exists()
    assert not (project / "trust").exists()


def test_the_function_itself_can_be_the_construct_and_be_certified(
    pytester: pytest.Pytester, project: Path
) -> None:
    template = json.loads((project / "template.json").read_bytes())
    template["version_pins"]["constructs"] = {"doubler": "c0ffee0"}
    (project / "template.json").write_text(json.dumps(template), "utf-8")
    pytester.makepyfile(ITSELF)
    ended = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--certify", "-W", "error")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(
        [
            "echelon: not reached in a certified run of *",
            "  right  0.875 [[]0.529, 0.978[]], n 8: expected a lower bound of at least 0.6",
            "  e3: right 0*",
            '    asked    {"number": 3}',
            '    answered {"doubler": {"result": 7}}',
            '    expected {"double": 6}',
            "  tier UNVERIFIED",
            "  bundle *evidence_bundle_*",
        ]
    )
    (bundle,) = project.glob(".echelon/theatres/*/evidence_bundle_*")
    assert check(bundle, require="logged").verdict == "valid, logged"


def test_a_run_that_another_worker_has_begun_is_left_to_it(
    pytester: pytest.Pytester, project: Path
) -> None:
    workspace = Workspace.from_environment()
    document = json.loads((project / "template.json").read_bytes())
    theatre_id = go_on_or_commit(document, project, workspace, new=True)
    pytester.makepyfile(
        "import pytest\n\n"
        "@pytest.mark.echelon(template='template.json', bound={'right': 0.6})\n"
        "def test_again():\n    pass\n"
    )
    with workspace.store.hold(theatre_id):
        ended = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--certify")
    ended.assert_outcomes(passed=1)
    (bundle,) = project.glob(".echelon/theatres/*/evidence_bundle_*")
    assert bundle.parent.name != theatre_id


def test_refusing_what_is_hard_reaches_no_bound(pytester: pytest.Pytester, project: Path) -> None:
    module = project / "picky.py"
    module.write_text(
        "from theatre import Refusal\n\n\ndef pick(input_data):\n"
        "    if input_data['number'] > 2:\n        raise Refusal('hard')\n"
        "    return {'result': 2 * input_data['number']}\n",
        "utf-8",
    )
    pytester.makepyfile(
        "import picky\nimport pytest\n\n\n"
        "@pytest.mark.echelon('template.json', {'right': 0.3})\n"
        "def test_picky():\n    return picky.pick\n"
    )
    ended = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["  refusal-rate-above-max: too many answers are left out*"])


def test_failing_before_what_is_hard_is_asked_reaches_no_bound(
    pytester: pytest.Pytester, project: Path
) -> None:
    template = json.loads((project / "template.json").read_bytes())
    template["execution_policy"] = {
        "failure_threshold": 0.05,
        "retry_policy": {"max_retries": 0, "backoff_seconds": 0},
    }
    template["version_pins"]["constructs"] = {"doubler": "c0ffee0"}
    (project / "template.json").write_text(json.dumps(template), "utf-8")
    fails = ITSELF.replace("== 3:", "> 6:").replace('return {"result": 7}', "raise ValueError")
    pytester.makepyfile(fails.replace("0.6", "0.3"))
    ended = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(
        ["  episodes-not-run: too many answers are left out*", "  right  * n [1-7]"]
    )


def test_a_method_that_pytest_does_not_run_as_a_function_fails(
    pytester: pytest.Pytester, project: Path
) -> None:
    pytester.makepyfile(
        "import doubling\nimport pytest\nimport unittest\n\n"
        "mark = pytest.mark.echelon('template.json', {'right': 0.99})\n\n\n"
        "class TestCase(unittest.TestCase):\n    @mark\n"
        "    def test_is_not_run(self):\n        self.assertTrue(doubling)\n\n"
        "    @mark\n    @unittest.skip('on purpose')\n"
        "    def test_is_skipped(self):\n        pass\n\n\n"
        "@mark\nclass TestPlain:\n    def test_is_run(self):\n        return doubling.double\n"
    )
    ended = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "error")
    ended.assert_outcomes(failed=2, skipped=1)
    ended.stdout.fnmatch_lines(
        ["*got TestCaseFunction, which ran without its template", "*expected a lower bound*"]
    )
    assert not (project / ".echelon").exists()


def test_copies_of_one_question_reach_no_bound(pytester: pytest.Pytester, project: Path) -> None:
    lines = (project / "numbers.jsonl").read_text("utf-8").splitlines()
    first = json.loads(lines[0])
    copies = [first | {"episode_id": f"copy-{number}"} for number in range(60)]
    raw = "".join(f"{json.dumps(one)}\n" for one in copies).encode()
    (project / "numbers.jsonl").write_bytes(raw)
    template = json.loads((project / "template.json").read_bytes())
    (name,) = template["dataset_hashes"]
    template["dataset_hashes"][name] = hashlib.sha256(raw).hexdigest()
    (project / "template.json").write_text(json.dumps(template), "utf-8")
    pytester.makepyfile(ITSELF)
    ended = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(
        [
            "  distinct-inputs-below-50: too many questions are copies of others*",
            "  caps *distinct-inputs-below-50*",
        ]
    )


def test_a_run_belongs_to_one_worker(pytester: pytest.Pytester, project: Path) -> None:
    pytester.makepyfile(TESTS)
    ended = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "xdist", "-n2")
    ended.assert_outcomes(passed=2, failed=6)
    ended.stdout.fnmatch_lines(["*= echelon =*", "*::test_reached"])
    assert not (project / ".echelon").exists()
