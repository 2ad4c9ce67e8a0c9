"""The exception of the demo, and those of what it uses."""

from frameworkclient import ClientError
from localcluster import LocalClusterError


class DemoError(Exception):
    """The demo cannot continue; the text, a sentence or a few lines, tells a person why."""


FAILURES = (DemoError, ClientError, LocalClusterError)
"""What ends the demo; the text of each is for a person."""
