"""What was committed before anything ran, and the files that it names."""
