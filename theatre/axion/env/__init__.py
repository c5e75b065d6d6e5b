"""The gridworld: its state, what follows from a step, what is measured of it."""
