"""Frameworks in a cluster: how they are changed, read in pages, followed, and waited for."""
