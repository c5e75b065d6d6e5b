"""The kernel: what may be done, by whom, and the log of it. It knows no agent."""
