"""The agents: honest ones, and liars of every rung of the ladder."""
