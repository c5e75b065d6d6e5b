"""The issuer's keys, and the log of what was committed, certified and voided."""
