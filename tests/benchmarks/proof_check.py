"""Prints what an offline check of the proofs next to a bundle costs.

`python -m tests.benchmarks.proof_check [CHECKS]` issues one bundle whose log has CHECKS entries
before it, with a witness, and checks its proofs as often. Processor time; asserts nothing.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.figures import processor_seconds, show, sizes
from tests.theatre.runs import LATE
from tests.theatre.transparency.issued_bundle import WITNESS, asking_for, issue_bundle
from tests.theatre.transparency.log_stage import entries
from theatre.api.bundle_proofs import certified_of, read_proofs
from theatre.engine.bundle_check.bundle_reader import Evidence
from theatre.engine.bundle_check.folder import BundleFolder
from theatre.engine.bundle_check.plain_notes import (
    Verify,
    reader_of,
    verify_with_openssl,
    verify_with_package,
)
from theatre.engine.bundle_check.plain_proofs import ProofCheck
from theatre.engine.canonical_json import parse_object
from theatre.transparency.bundle_proofs import check_proofs
from theatre.transparency.trust import Trust

CHECKS = 1000


def time_checks(name: str, check: Callable[[], object], count: int) -> None:
    """Print the least and the median time of a check."""
    times = []
    for _ in range(count):
        began = processor_seconds()
        check()
        times.append(processor_seconds() - began)
    show(name, times)


def main() -> None:
    """Print the figures."""
    (count,) = sizes(CHECKS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        issued = issue_bundle(folder, witness=WITNESS, before=lambda _: entries(0, count))
        data = issued.trust_file(folder, **asking_for(issued.trust, WITNESS)).read_bytes()
        trust, reader = Trust.parse(data), reader_of(data)
        listed = BundleFolder.listed(issued.bundle)
        certificate = parse_object(listed.read("certificate.json"))
        proofs, certified = read_proofs(listed), certified_of(listed, certificate)
        evidence = Evidence(folder=issued.bundle, now=LATE)

        def alone(verify: Verify) -> object:
            return list(ProofCheck(evidence, reader, verify, "").lines())

        time_checks(
            "the proofs, echelon check", lambda: check_proofs(proofs, certified, trust=trust), count
        )
        time_checks("the proofs, verify_bundle.py", lambda: alone(verify_with_package), count)
        time_checks(
            "the same with openssl", lambda: alone(verify_with_openssl), max(1, count // 50)
        )


if __name__ == "__main__":
    main()
