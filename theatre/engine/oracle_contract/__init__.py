"""How a construct is called and how its answer is read (docs/contract/construct.md §1).

The same strict reader serves every adapter, so a construct cannot be judged differently
because of the wire it sits on.
"""

from theatre.engine.models import (
    Attempt,
    InvocationMetadata,
    OracleInvocationRequest,
    OracleInvocationResponse,
    RetryPolicy,
)
from theatre.engine.oracle_contract.adapters import Invoker, OracleAdapter, RehearsalAdapter
from theatre.engine.oracle_contract.answers import failed_attempt, read_answer
from theatre.engine.oracle_contract.isolation import (
    NOT_ISOLATED,
    REMOTE,
    IsolatedBy,
    Isolation,
    weakest_isolation,
)
from theatre.engine.oracle_contract.program_version import program_version, served_argv
from theatre.engine.oracle_contract.sanitising import InputSanitiser, SanitisedInput
from theatre.engine.oracle_contract.text import (
    MAX_ANSWER_BYTES,
    MAX_ERROR_DETAIL,
    MAX_STDERR,
    clean_detail,
    cut_raw,
)

__all__ = [
    "MAX_ANSWER_BYTES",
    "MAX_ERROR_DETAIL",
    "MAX_STDERR",
    "NOT_ISOLATED",
    "REMOTE",
    "Attempt",
    "InputSanitiser",
    "InvocationMetadata",
    "Invoker",
    "IsolatedBy",
    "Isolation",
    "OracleAdapter",
    "OracleInvocationRequest",
    "OracleInvocationResponse",
    "RehearsalAdapter",
    "RetryPolicy",
    "SanitisedInput",
    "clean_detail",
    "cut_raw",
    "failed_attempt",
    "program_version",
    "read_answer",
    "served_argv",
    "weakest_isolation",
]
