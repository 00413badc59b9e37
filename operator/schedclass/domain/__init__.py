"""Decisions as pure functions on frozen data: no client, no Kopf, no I/O, no clock."""
