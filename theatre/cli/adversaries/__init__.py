"""`echelon adversaries`: runs worthless programs against a template, to test the measurement."""
