"""The exception of the demo."""


class DemoError(Exception):
    """The demo cannot continue; the text, a sentence or a few lines, tells a person why."""
