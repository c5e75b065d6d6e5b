"""The interfaces: what an agent shows of its world, and how it commits to that."""
