"""The error of making or checking a release."""

from __future__ import annotations


class ReleaseError(Exception):
    """A step of a release failed; the text says which and what to do next."""
