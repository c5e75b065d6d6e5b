"""Everything that reaches a construct."""
