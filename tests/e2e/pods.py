"""Pod templates for gangs of real Pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localcluster import images

if TYPE_CHECKING:
    from support.raw import Json

PREFIX = "barrier.frameworkcontroller.microsoft.com/"


def pod(command: list[str], *, image: str = "barrier", requests: Json | None = None, **annotations: str) -> Json:
    """A template of one container that asks the injector for a barrier.

    Args:
        command: Of the container.
        image: One of the project's; the barrier's has Python and is on the node in any case.
        requests: Of the container.
        annotations: The barrier's, without their prefix, `_` for `-`.
    """
    return {
        "metadata": {
            "labels": {"frameworkcontroller.microsoft.com/barrier": "enabled"},
            "annotations": {PREFIX + name.replace("_", "-"): value for name, value in annotations.items()},
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": images.reference(image),
                    "imagePullPolicy": "IfNotPresent",
                    "command": command,
                    "resources": {"requests": requests or {"cpu": "10m"}},
                }
            ],
        },
    }


def python(program: str) -> list[str]:
    """The command that runs a program with the image's Python."""
    return ["python3", "-uc", program]
