"""Whether the barrier of a Pod fits the controller that made the Pod.

The controller writes its version into each Pod that it creates, so the injector needs no permission to learn it. The
barrier's version is the tag of its image, or that of the injector where the tag says none. Source:
docs/operate/release.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frameworkcontroller.api import names as fc

if TYPE_CHECKING:
    from frameworkinjector.review.pod import Pod

MAX_MINORS: Final = 1
# Before 1.0 a minor version counts as after it.
_VERSION: Final = re.compile(r"v?([0-9]{1,6})\.([0-9]{1,6})(?:[.+-][\w.+-]{0,100})?", re.ASCII)

Minor = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Skew:
    """Two versions that are too far apart, each by its major and minor number.

    Attributes:
        controller: That of the controller, for example `0.3`.
        barrier: That of the barrier.
    """

    controller: str
    barrier: str

    @property
    def sentence(self) -> str:
        """What the user reads."""
        return (
            f"The controller of this Pod is of version {self.controller} and its barrier of {self.barrier}: "
            f"they work together up to {MAX_MINORS} minor version apart, so upgrade the older one."
        )


def between(pod: Pod, image: str, version: str) -> Skew | None:
    """Return the skew of a Pod's controller and its barrier; None if they fit or one of them is unknown.

    Args:
        pod: The Pod as received.
        image: The image of its barrier.
        version: The version of the injector.
    """
    controller = minor_of(pod.annotations.get(fc.CONTROLLER_VERSION, ""))
    barrier = minor_of(tag_of(image)) or minor_of(version)
    if controller is None or barrier is None or fit(controller, barrier):
        return None
    return Skew(f"{controller[0]}.{controller[1]}", f"{barrier[0]}.{barrier[1]}")


def fit(controller: Minor, barrier: Minor) -> bool:
    """Report whether two versions work together: of one major version, and minor versions next to each other."""
    return controller[0] == barrier[0] and abs(controller[1] - barrier[1]) <= MAX_MINORS


def minor_of(text: str) -> Minor | None:
    """Return the major and minor number of a version; None if the text is no version."""
    found = _VERSION.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def tag_of(image: str) -> str:
    """Return the tag in the name of an image, "" if it has none."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]
