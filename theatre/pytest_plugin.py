"""`@pytest.mark.echelon`: a test that fails on the lower bound of a score (docs/ci.md).

pytest loads this with every session of an environment that has the project installed. So it
imports nothing of the project before a test is marked.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from theatre.api.results import Episode, Run, Score

_MARK: Final = "echelon"
_PROPERTY: Final = "echelon"
_INPUT: Final = "input_data"
_WORST: Final = 3
_WIDTH: Final = 160
_LEFT_OUT: Final = (
    *("refusal-rate-above-max", "declined-above-max:", "unscored-answers:"),
    "episodes-not-run",
)
"""Caps of answers that count nowhere: without them the means would be of what was easy."""
_REPEATED: Final = ("distinct-inputs-below-", "distinct-per-criterion-below-")
"""Caps of questions that were asked again: an interval takes copies for so many questions."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--certify`."""
    parser.getgroup("echelon").addoption(
        "--certify",
        action="store_true",
        help="Commit, log and certify the runs of echelon tests, which are rehearsals otherwise.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "echelon(template, bound): run a template; fail where the lower bound of the 95 % interval "
        "of a criterion, or of `composite`, is below `bound` (name -> least bound).",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Take `input_data` of a marked function for what its construct is asked, not for a fixture."""
    if metafunc.definition.get_closest_marker(_MARK) and _INPUT in metafunc.fixturenames:
        metafunc.parametrize(_INPUT, [None], ids=["construct"])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the template of a marked function in place of the function."""
    mark = pyfuncitem.get_closest_marker(_MARK)
    if mark is None:
        return None
    if sum(one.name == _MARK for one in pyfuncitem.own_markers) > 1:
        pytest.fail("expected one echelon mark on a test, got several: one runs", pytrace=False)
    template, bound = _arguments(mark, pyfuncitem.path.parent)
    run = _run(template, _construct_of(pyfuncitem), is_certified=pyfuncitem.config.option.certify)
    for line in _shown(run):
        pyfuncitem.user_properties.append((_PROPERTY, line))
    failures = [*_failures(run, bound)]
    if failures:
        pytest.fail(
            "\n".join([_headline(run, template), *failures, *_worst(run, bound)]), pytrace=False
        )
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a marked test that passed without a run, as a method of a TestCase does."""
    yield
    ran = any(name == _PROPERTY for name, _ in item.user_properties)
    if item.get_closest_marker(_MARK) is not None and not ran:
        pytest.fail(
            "expected an echelon test to be a function, or a method of a plain class, got "
            f"{type(item).__name__}, which ran without its template",
            pytrace=False,
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the scores of each run, and where the bundle of a certified one is."""
    reports = [
        report
        for group in ("passed", "failed")
        for report in terminalreporter.getreports(group)
        if any(name == _PROPERTY for name, _ in report.user_properties)
    ]
    if reports:
        terminalreporter.section("echelon")
    for report in reports:
        terminalreporter.line(report.nodeid)
        for name, line in report.user_properties:
            if name == _PROPERTY:
                terminalreporter.line(f"  {line}")


# What a test is about.


def _arguments(mark: pytest.Mark, folder: Path) -> tuple[Path, dict[str, float]]:
    """Return the template, whose path begins at the test's folder, and the bounds."""
    known = {"template", "bound"}
    given = {**dict(zip(("template", "bound"), mark.args, strict=False)), **mark.kwargs}
    bound = given.get("bound")
    is_bound = isinstance(bound, Mapping) and all(
        isinstance(one, int | float) and 0 < one <= 1 for one in bound.values()
    )
    if given.keys() != known or not is_bound or not bound or len(mark.args) > len(known):
        pytest.fail(
            "expected @pytest.mark.echelon(template='…', bound={'criterion': 0.8}), with bounds "
            f"above 0 and up to 1, got {given}",
            pytrace=False,
        )
    return folder / given["template"], {**bound}


def _construct_of(item: pytest.Function) -> Callable[..., object] | None:
    """Return the function itself, what it returns, or None: then the template names it."""
    names = item._fixtureinfo.argnames  # noqa: SLF001 - as pytest's own call does
    if _INPUT in names:
        function: Callable[..., object] = item.function
        return function
    returned: object = item.obj(**{name: item.funcargs[name] for name in names})
    if returned is None or callable(returned):
        return returned
    pytest.fail(
        "expected an echelon test to return its construct, a function, or to be one that takes "
        f"{_INPUT}, got one that returns {type(returned).__name__}",
        pytrace=False,
    )


def _run(
    template: Path,
    construct: Callable[..., object] | None,
    *,
    is_certified: bool,
    new: bool = False,
) -> Run:
    import theatre  # noqa: PLC0415 - a session without such tests must not wait for it

    try:
        return theatre.run(template, construct=construct, rehearsal=not is_certified, new=new)
    except theatre.InterruptedRunError as error:
        raise KeyboardInterrupt(str(error)) from error
    except theatre.TheatreError as error:
        if error.code == "state-conflict" and not new:
            # Another worker's test has the same commitment: its run is not this one's to go on.
            return _run(template, construct, is_certified=is_certified, new=True)
        # Without what came before: pytest would print both.
        raise pytest.fail.Exception(f"{error.code}: {error}", pytrace=False) from None


# What came of it.


def _failures(run: Run, bound: Mapping[str, float]) -> Iterator[str]:
    """Yield why a run does not pass: a bound that is not reached, or answers that count nowhere."""
    if run.outcome not in {"rehearsed", "certified"}:
        yield f"  expected a certificate, got {run.outcome} ({run.reason})"
        return
    for name, least in bound.items():
        score = run.scores.get(name)
        if score is None:
            yield f"  expected a criterion of {', '.join(run.scores)}, got {name}"
        elif not _reaches(score, least):
            yield f"  {name}  {score}: expected a lower bound of at least {least:g}"
    for cap in run.caps:
        if cap.startswith(_LEFT_OUT):
            yield f"  {cap}: too many answers are left out of the means"
        elif cap.startswith(_REPEATED):
            yield f"  {cap}: too many questions are copies of others, which the interval counts"


def _reaches(score: Score, least: float) -> bool:
    return score.low is not None and score.low >= least


def _headline(run: Run, template: Path) -> str:
    what = "rehearsal" if run.certificate is None else "certified run"
    return f"echelon: not reached in a {what} of {template}"


def _shown(run: Run) -> Iterator[str]:
    for name, score in run.scores.items():
        yield f"{name}  {score}"
    yield f"tier {run.tier}" if run.certificate else f"would be {run.tier}, as a certified run"
    if run.caps:
        yield f"caps {', '.join(run.caps)}"
    if run.findings:
        yield f"findings {', '.join(run.findings)}"
    if run.bundle is not None:
        yield f"bundle {run.bundle}"


def _worst(run: Run, bound: Iterable[str]) -> Iterator[str]:
    names = [name for name in bound if name != "composite"]

    def badness(one: Episode) -> float:
        scores = [one.scores.get(name) for name in names or one.scores]
        return min((score for score in scores if score is not None), default=1.0)

    lowest = heapq.nsmallest(_WORST, run.episodes(), key=badness)
    for one in (one for one in lowest if badness(one) < 1):
        scores = ", ".join(
            f"{name} {'-' if score is None else f'{score:g}'}" for name, score in one.scores.items()
        )
        yield f"  {one.episode_id}: {one.error or scores}"
        for what, value in (
            ("asked", one.input_data),
            ("answered", one.answers),
            ("expected", one.expected),
        ):
            text = json.dumps(value, ensure_ascii=False, sort_keys=True)
            yield f"    {what:8} {text if len(text) <= _WIDTH else f'{text[:_WIDTH]}…'}"
