"""Insight: what a snapshot of a cluster shows, and what would happen if it were otherwise.

Everything rests on one frozen `Snapshot`, whoever gathered it, and on the very code that decides
at admission and in scheduling.
"""
