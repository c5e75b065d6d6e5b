"""A red test shows what constructs and commands said: most assertions compare a status or a code.

What went wrong is in the `error_detail` next to a status, and in what a command wrote next to its
exit code. For each frame of the tests below the failure, those of its local variables are shown.
"""

from collections.abc import Generator, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
_DEEPEST = 6
_MOST = 40
_LONGEST = 2000
_TOLD = ("error_detail", "stderr")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,  # noqa: ARG001 - of the hook
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a section to the report of a test that failed."""
    report = yield
    if report.failed and call.excinfo is not None:
        lines = [
            f"{name} {found}"
            for entry in call.excinfo.traceback
            if Path(entry.path).is_relative_to(TESTS)
            for name, value in entry.frame.f_locals.items()
            for found in details_in(value)
        ]
        if lines:
            report.sections.append(("What was said", "\n".join(dict.fromkeys(lines[:_MOST]))))
    return report


def details_in(value: object, depth: int = 0) -> Iterator[str]:
    """Find every `error_detail` and `stderr` that says something, with the way to it."""
    if depth > _DEEPEST:
        return
    members: list[tuple[object, object]] = []
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list | tuple):
        members = list(enumerate(value))
    elif is_dataclass(value) and not isinstance(value, type):
        members = [(field.name, getattr(value, field.name, None)) for field in fields(value)]
    for name, member in members:
        if name in _TOLD:
            if member:
                yield f"{name}: {str(member)[-_LONGEST:]}"
        else:
            for found in details_in(member, depth + 1):
                yield f"{name} {found}"
