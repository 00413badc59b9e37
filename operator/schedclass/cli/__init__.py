"""The command line `schedclass`: shows where pods are, why, and what a change would do."""
