"""Generators of files that follow from others; each has `--check`, which `make check` runs."""
