"""Certificates of the webhook: made, published, rotated, served."""
