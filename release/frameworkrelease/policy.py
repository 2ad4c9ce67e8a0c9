"""The admission policies that add the barrier without a webhook, as a file of the chart.

A template of helm cannot write their expressions again for other values, so the file is that of the default settings,
with an image in which the chart puts the one of its values. `checks.yaml` refuses values that would need more.
"""

from __future__ import annotations

from typing import Final

from frameworkinjector import __version__
from frameworkinjector.config import Config
from frameworkinjector.policy import documents
from frameworkrelease import yamltext
from frameworkrelease.chart import CHART

FILE: Final = CHART / "files" / "policy.yaml"
IMAGE: Final = "registry.invalid/barrier:of-the-values"


def text() -> str:
    """Return the file: a list of the policies and their bindings, in the order of their creation."""
    config = Config(version=__version__, barrier_image=IMAGE)
    return yamltext.dump({"items": documents(config)}, "injector/frameworkinjector/policy.py")
