"""False alarms and hangs in 1,000 virtual hours of training that marks what it does (tools/bench/hangs.py)."""

from bench.hangs import DEFAULT, KINDS, run

HOURS = {"steady, 0.2 s": 4, "steady, 1 s": 4, "steady, 20 s": 200, "steady, 5 min": 420, "a word each 100 steps": 200}
"""Of those that differ: what says much takes much."""


def test_what_marks_what_it_does_is_left_alone_and_each_hang_is_found() -> None:
    hours = alarms = 0
    for name in (name for name, kind in KINDS.items() if kind.is_marked):
        hours += HOURS.get(name, 25)
        found = run(name, HOURS.get(name, 25), 10)[DEFAULT]
        alarms += found.alarms
        assert found.late <= 10, name
        assert len(found.after) == found.culprits.total() == 10, name
        assert not found.culprits["wrong"], name
    assert hours >= 1000
    assert alarms <= 1
