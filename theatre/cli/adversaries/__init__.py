"""`echelon adversaries`: programs that deserve nothing, through the measurement of any template."""
