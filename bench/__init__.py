"""What admission costs: pods created through a real API server, pinned by us and by its own limit.

Run by `make bench`.
"""
