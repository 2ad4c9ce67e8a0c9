"""The demo's one exception."""


class DemoError(Exception):
    """The demo cannot go on; the text is one sentence, or a few lines, for a person."""
