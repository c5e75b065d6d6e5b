"""A package, so that its stage and its browser end before tests of other folders begin."""
