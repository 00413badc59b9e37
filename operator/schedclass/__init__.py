"""Placement policy for multi-tenant Kubernetes: inherited scheduling classes."""

__version__ = "0.1.0"
