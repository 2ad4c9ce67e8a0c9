"""Random schedules: whatever happens in whatever order, the guarantees hold after each move, and it comes to an end.

`SOAK_EXAMPLES=20000 pytest tests/controller/core/test_schedules.py` looks at more of them.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.controller.core.chaos import IN_PLACE, IN_PLACE_WITH_TOOLS, MOVES, Chaos

EXAMPLES = int(os.environ.get("SOAK_EXAMPLES", "300"))
WEIGHTS = {
    "reconcile": 5,
    "arrive": 6,
    "deliver": 5,
    "fail": 1,
    "work": 8,
    "crash": 1,
    "read_again": 1,
    "hear": 10,
    "hear_again": 1,
    "relist": 4,
    "wait": 2,
    "relapse": 1,
    "set_clock": 1,
    "unlabel": 1,
    "have_no_quota": 1,
    "limit_statuses": 1,
    "go_to_the_ends": 1,
    "live": 9,
    "end": 2,
    "restart_barrier": 2,
    "lack_node": 2,
    "crash_barrier": 2,
    "delay_watches": 1,
    "lose_node": 1,
    "collect": 2,
    "kill_pod": 1,
    "kill_config_map": 1,
    "tamper": 2,
    "squat": 1,
    "scale": 3,
    "edit": 1,
    "depend": 2,
    "readiness": 2,
    "give_deadline": 1,
    "suspend": 2,
    "queue": 1,
    "stop": 1,
    "delete": 1,
}
BAG = [kind for kind, weight in WEIGHTS.items() for _ in range(weight)]
NUMBERS = st.integers(0, 7)
# Pods that no status names run on, and are deleted with the ConfigMap.
UNLABELLED_WHILE_IT_IS_DELETED = [
    *(("reconcile", 0, 0), ("reconcile", 0, 0), ("reconcile", 0, 0), ("work", 0, 0), ("crash", 0, 0)),
    *(("go_to_the_ends", 0, 0), ("work", 0, 0), ("crash", 0, 0), ("kill_pod", 0, 0), ("reconcile", 0, 0)),
    *(("have_no_quota", 1, 0), ("live", 0, 5), ("hear", 0, 0), ("work", 0, 0), ("reconcile", 0, 0)),
    *(("reconcile", 0, 0), ("work", 0, 0), ("tamper", 5, 0)),
]
SCHEDULES = st.lists(st.tuples(st.sampled_from(BAG), NUMBERS, NUMBERS), min_size=40, max_size=200)


random_schedules = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)


@random_schedules
@example(UNLABELLED_WHILE_IT_IS_DELETED, False)
@given(SCHEDULES, st.booleans())
def test_the_guarantees_hold_whatever_happens_and_it_comes_to_an_end(
    schedule: list[tuple[str, int, int]], pause: bool
) -> None:
    chaos = Chaos(crash_loop_pause=pause)
    for kind, one, two in schedule:
        chaos.move(kind, one, two)
    chaos.come_to_rest()


@random_schedules
@given(st.lists(st.tuples(st.sampled_from([*BAG, *["queue"] * 15]), NUMBERS, NUMBERS), min_size=40, max_size=200))
def test_a_queue_gets_back_what_it_gives_and_no_pod_is_left_then(schedule: list[tuple[str, int, int]]) -> None:
    """The world's Kueue looks at each thing that it is told; nothing runs that was not admitted."""
    chaos = Chaos(kueue=True)
    for kind, one, two in schedule:
        chaos.move(kind, one, two)
    chaos.come_to_rest()


@random_schedules
@given(SCHEDULES, st.booleans(), st.booleans())
def test_no_application_runs_with_peers_of_another_epoch_and_each_gang_runs_or_ends(
    schedule: list[tuple[str, int, int]], tools: bool, pause: bool
) -> None:
    """Each release is compared with all others (`inplace`); at the end everybody behaves, and nobody waits in vain."""
    chaos = Chaos(IN_PLACE_WITH_TOOLS if tools else IN_PLACE, crash_loop_pause=pause)
    for kind, one, two in schedule:
        chaos.move(kind, one, two)
    chaos.come_to_rest()


def test_every_move_has_a_weight() -> None:
    assert set(WEIGHTS) == set(MOVES)
