"""The version of the distribution; a test compares the two."""

__version__ = "0.3.0"
