"""A policy counts witnesses as it is written, and a wrong line is named."""

import pytest

from tests.theatre.transparency.log_stage import signer
from theatre.transparency.errors import MalformedError, QuorumError
from theatre.transparency.notes import KeyKind
from theatre.transparency.policy import Policy

LOG = signer("log.example")
WITNESSES = {
    name: signer(f"{name}.example", KeyKind.WITNESS, seed)
    for seed, name in enumerate(["X1", "X2", "X3", "Y1", "Y2", "Y3"], start=10)
}
LINES = "".join(f"witness {name} {one.key}\n" for name, one in WITNESSES.items())
# The example of C2SP tlog-policy, with keys.
EXAMPLE = f"""# two organisations
log {LOG.key} https://log.example/

{LINES}
group X-witnesses 2 X1 X2 X3
 group\tY-witnesses any Y1 Y2 Y3
group X-and-Y all X-witnesses Y-witnesses
quorum X-and-Y
"""


def counts(policy: Policy, *names: str) -> bool:
    """Return whether these witnesses are enough."""
    try:
        policy.check_quorum({WITNESSES[name].key for name in names})
    except QuorumError:
        return False
    return True


def test_the_example_of_the_specification_counts_as_it_says() -> None:
    policy = Policy.parse(EXAMPLE.encode())
    assert dict(policy.logs) == {LOG.key: "https://log.example/"}
    assert counts(policy, "X1", "X3", "Y2")
    assert not counts(policy, "X1", "X2", "X3")
    assert not counts(policy, "X1", "Y1", "Y2", "Y3")
    assert not counts(policy)


def test_no_quorum_asks_for_no_witness() -> None:
    assert counts(Policy.parse(f"log {LOG.key}\nquorum none\n".encode()))


def test_one_witness_can_be_the_quorum() -> None:
    policy = Policy.parse(f"{LINES}quorum Y3\n".encode())
    assert (counts(policy, "Y3"), counts(policy, "Y1", "Y2")) == (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "quorum X1\n",
        "quorum none\nquorum none\n",
        f"log {LOG.key}\nlog {LOG.key}\nquorum none\n",
        f"log {WITNESSES['X1'].key}\nquorum none\n",
        f"witness none {WITNESSES['X1'].key}\nquorum none\n",
        f"witness X1 {LOG.key}\nquorum none\n",
        f"{LINES}witness again {WITNESSES['X1'].key}\nquorum none\n",
        f"{LINES}group g 0 X1\nquorum g\n",
        f"{LINES}group g 3 X1 X2\nquorum g\n",
        f"{LINES}group g any\nquorum none\n",
        f"{LINES}group g any g\nquorum g\n",
        f"{LINES}group g all X1 X1\nquorum g\n",
        f"{LINES}group g any X1\ngroup h all X1 X2\nquorum h\n",
        "quorum none\r\n",
        "witnes X1\nquorum none\n",
    ],
)
def test_another_text_is_no_policy(text: str) -> None:
    with pytest.raises(MalformedError):
        Policy.parse(text.encode())


def test_a_key_counts_once_whatever_its_names() -> None:
    """A second name of one key would make one witness a quorum of two."""
    twin = signer("twin.example", KeyKind.WITNESS, seed=10)
    with pytest.raises(MalformedError, match=r"line \d+ of the policy: expected each key once"):
        Policy.parse(f"{LINES}witness twin {twin.key}\nquorum none\n".encode())
