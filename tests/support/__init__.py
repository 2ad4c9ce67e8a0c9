"""Helpers that several test suites share; the docstring of each module says which suites use it."""
