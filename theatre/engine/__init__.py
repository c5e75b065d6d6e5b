"""The engine: pure values and functions from template bytes to a checkable certificate."""
