"""What a Framework can be waited for to be."""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, get_args

from frameworkclient.views.framework import FrameworkView
from frameworkcontroller.api.states import State

Goal: TypeAlias = Literal["completed", "succeeded", "running", "ready", "deleted"]
GOALS: Final[tuple[Goal, ...]] = get_args(Goal)


def reached(view: FrameworkView, goal: Goal | Callable[[FrameworkView], bool]) -> bool:
    """Report whether a Framework is as far as somebody waits for it to be."""
    if not isinstance(goal, str):
        return goal(view)
    match goal:
        case "completed":
            return view.finished
        case "succeeded":
            return view.succeeded
        case "running":
            # A Task runs or has run.
            return view.state is State.RUNNING
        case "ready":
            ready, _, total = view.ready_text.partition("/")
            return ready == total != ""
        case "deleted":
            # No Framework is that can be seen.
            return False
