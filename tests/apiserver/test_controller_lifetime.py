"""How long a Framework is kept, on a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from testkit.frameworks import ControllerProcess, Frameworks
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver


def test_a_framework_is_deleted_when_its_time_to_live_is_over(
    controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    def gone(name: str) -> None:
        assert name not in {one["metadata"]["name"] for one in frameworks.raw.get(frameworks.path)["items"]}

    frameworks.create("now", role("worker", 1), ttlSecondsAfterFinished=0)
    frameworks.create("kept", role("worker", 1))
    with player.playing():
        eventually(lambda: gone("now"), 30)
        frameworks.wait("kept", "Completed")
        frameworks.merge("kept", ttlSecondsAfterFinished=1)
        eventually(lambda: gone("kept"), 30)
    assert frameworks.pods() == {}
    assert ": OnFrameworkDeletion: ObjectSnapshot: " in controller.log
