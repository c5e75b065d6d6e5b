"""The files of a bundle, read without trust: bounded, strict, canonical."""
