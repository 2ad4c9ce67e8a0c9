"""Random schedules: whatever happens in whatever order, the guarantees hold after each move, and it comes to an end.

`SOAK_EXAMPLES=20000 pytest tests/controller/core/reconcile/test_schedules.py` looks at more of them.
"""

import os

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.controller.core.chaos import IN_PLACE, IN_PLACE_WITH_TOOLS, MOVES, Chaos

EXAMPLES = int(os.environ.get("SOAK_EXAMPLES", "300"))
WEIGHTS = {
    10: ("hear",),
    9: ("live",),
    8: ("work",),
    6: ("arrive",),
    5: ("reconcile", "deliver"),
    4: ("relist",),
    3: ("scale",),
    2: (
        *("wait", "end", "restart_barrier", "lack_node", "crash_barrier", "collect"),
        *("tamper", "depend", "readiness", "suspend"),
    ),
    1: (
        *("fail", "crash", "read_again", "hear_again", "relapse", "set_clock", "unlabel", "have_no_quota"),
        *("limit_statuses", "go_to_the_ends", "delay_watches", "lose_node", "kill_pod", "kill_config_map"),
        *("squat", "edit", "give_deadline", "queue", "stop", "delete"),
    ),
}
BAG = [kind for weight, kinds in WEIGHTS.items() for kind in kinds for _ in range(weight)]
NUMBERS = st.integers(0, 7)
# Pods that no status names run on, and are deleted with the ConfigMap.
UNLABELLED_WHILE_IT_IS_DELETED = [
    *(("reconcile", 0, 0), ("reconcile", 0, 0), ("reconcile", 0, 0), ("work", 0, 0), ("crash", 0, 0)),
    *(("go_to_the_ends", 0, 0), ("work", 0, 0), ("crash", 0, 0), ("kill_pod", 0, 0), ("reconcile", 0, 0)),
    *(("have_no_quota", 1, 0), ("live", 0, 5), ("hear", 0, 0), ("work", 0, 0), ("reconcile", 0, 0)),
    *(("reconcile", 0, 0), ("work", 0, 0), ("tamper", 5, 0)),
]
# The next leader goes on with an attempt whose Tasks were left out.
CRASHED_WITH_A_STATUS_TOO_LARGE = [
    *(("work", 0, 0), ("hear", 0, 0), ("hear", 0, 0), ("work", 0, 0), ("scale", 1, 2), ("relapse", 0, 0)),
    *(("work", 0, 0), ("limit_statuses", 7, 0), ("read_again", 0, 0), ("hear", 0, 0), ("work", 0, 0), ("live", 0, 7)),
    *(("limit_statuses", 0, 0), ("work", 0, 0), ("crash", 0, 0)),
]
SCHEDULES = st.lists(st.tuples(st.sampled_from(BAG), NUMBERS, NUMBERS), min_size=40, max_size=200)


random_schedules = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)


def play(chaos: Chaos, schedule: list[tuple[str, int, int]]) -> None:
    for kind, one, two in schedule:
        chaos.move(kind, one, two)
    chaos.come_to_rest()


@random_schedules
@example(UNLABELLED_WHILE_IT_IS_DELETED, False)
@example(CRASHED_WITH_A_STATUS_TOO_LARGE, False)
@given(SCHEDULES, st.booleans())
def test_the_guarantees_hold_whatever_happens_and_it_comes_to_an_end(
    schedule: list[tuple[str, int, int]], pause: bool
) -> None:
    play(Chaos(crash_loop_pause=pause), schedule)


@random_schedules
@given(st.lists(st.tuples(st.sampled_from([*BAG, *["queue"] * 15]), NUMBERS, NUMBERS), min_size=40, max_size=200))
def test_a_queue_gets_back_what_it_gives_and_no_pod_is_left_then(schedule: list[tuple[str, int, int]]) -> None:
    """The world's Kueue looks at each thing that it is told; nothing runs that was not admitted."""
    play(Chaos(kueue=True), schedule)


@random_schedules
@given(SCHEDULES, st.booleans(), st.booleans())
def test_no_application_runs_with_peers_of_another_epoch_and_each_gang_runs_or_ends(
    schedule: list[tuple[str, int, int]], tools: bool, pause: bool
) -> None:
    """Each release is compared with all others (`inplace`); at the end everybody behaves, and nobody waits in vain."""
    play(Chaos(IN_PLACE_WITH_TOOLS if tools else IN_PLACE, crash_loop_pause=pause), schedule)


def test_every_move_has_a_weight() -> None:
    assert set(BAG) == set(MOVES)
