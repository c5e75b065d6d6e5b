"""On how many examples a property is tried: on all in `make soak`, on a part in `make test`."""

import os

SOAK = os.environ.get("ECHELON_SOAK") == "1"


def drawn(examples: int) -> int:
    """Return `examples` in `make soak`, else an eighth of them: each run draws others."""
    return examples if SOAK else max(examples // 8, 5)
