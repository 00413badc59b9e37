"""Adapters that read and write Kubernetes."""
