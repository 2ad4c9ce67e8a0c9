"""What one input may cost, by target: the one place of these numbers.

CPU time is that of one turn of the event loop: a unit is about a millisecond, see `meter.unit_seconds`. Memory is what
is held at the same time. Each has a constant, a part for each KiB or byte of the input, and a part for each item.
"""

from tests.cost.meter import MIB, Bound

INPUT_BYTES = 1_500_000
"""What etcd accepts of one object."""
REQUEST_BYTES = 3 * MIB
"""What the API server accepts in a request, and sends to a webhook."""
LINE_BYTES = 256 * 1024
"""What `frameworkctl` takes for one line of a log."""
ROSTER_BYTES = 1 * MIB
"""What Kubernetes accepts in a ConfigMap."""
TASKS = 10_000
"""The controller runs no more Tasks of one Framework."""
ONE_TURN = 100
"""Units: 100 ms of a core of ten years ago and 50 ms of one of today, for anything within the limits."""
AN_EDIT = 40
"""Units: 20 ms of a core of today."""

BOUNDS = {
    # A pass and what follows from it; an item is a TaskRole, a Task, a dependency or a Pod that was created.
    # No turn has more than 100 units, whatever the Framework is like: see `ONE_TURN`.
    "pass": Bound(units=(ONE_TURN, 0, 0), peak=(16 * MIB, 8, 6 * 1024), requests=(50, 2)),
    # The same of what follows from an edit of one that runs, whose templates are small: it costs what it changes.
    "edit": Bound(units=(AN_EDIT, 0, 0), peak=(16 * MIB, 8, 6 * 1024), requests=(50, 2)),
    # A Pod that is made, and one that would be too large for the API server.
    "template": Bound(units=(20, 0.3, 0), peak=(16 * MIB, 32, 0)),
    "refused template": Bound(units=(20, 0.1, 0), peak=(2 * MIB, 8, 0)),
    # The webhook answers; an item is nothing.
    "review": Bound(units=(20, 0.2, 0), peak=(40 * MIB, 10, 0)),
    # A roster that the controller writes and a barrier reads; an item is a Task.
    "roster": Bound(units=(20, 0.15, 0.03), peak=(8 * MIB, 8, 2 * 1024)),
    # Any ConfigMap that somebody may have written, as a barrier reads it; its size is that of what is unpacked.
    "foreign roster": Bound(units=(20, 0.5, 0), peak=(4 * MIB, 32, 0)),
    # Text of a container on its way to a terminal; an item is a chunk of an answer.
    "output": Bound(units=(4, 0.5, 0.1), peak=(1 * MIB, 24, 1024)),
}
