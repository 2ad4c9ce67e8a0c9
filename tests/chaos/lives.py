"""Frameworks of many shapes: what their Pods do, what their user does, and where each must be in the end."""

import random
from dataclasses import dataclass, field

from frameworkcontroller.api import names
from localcluster.client import Json
from testkit.frameworks import POD, role

End = int | str
"""How an attempt of a Task ends: an exit code; `stay`: it runs on; `vanish`: others delete the Pod; `gone`: its node is
gone, and the Pod with it; `lost`: the Pod of a lost node fails; `unlabel`: the Pod loses the label of its Framework."""
TRANSIENT: tuple[End, ...] = (200, 137, "vanish", "gone", "lost", "unlabel")
"""Retried without being counted, by the fancy policy and the default configuration."""
COUNTED = (1, 7, 42)

GANG_POD: Json = {"metadata": {"labels": {names.BARRIER_LABEL: "enabled"}}, **POD}
FANCY = {"fancyRetryPolicy": True, "maxRetryCount": 2}


@dataclass
class Life:
    """A Framework of the run, and what is expected of it.

    Attributes:
        roles: Its TaskRoles, as last asked for; `spec` is the rest of its spec.
        ends: For each Framework attempt, for each Task by `<role>-<index>`, the ends of its attempts; the last entry of
            either list holds for all further ones. A Task without ends does as `otherwise` says.
        otherwise: The end of all other attempts.
        code: The completion code in the end; None if it is deleted, or runs on.
        state: Its state in the end, "" if it is deleted.
        counted: The retries of the Framework that its policy counts.
        steps: What its user does yet, one step after another.
    """

    name: str
    kind: str
    roles: list[Json]
    spec: Json = field(default_factory=dict)
    ends: list[dict[str, list[End]]] = field(default_factory=lambda: [{}])
    otherwise: End = 0
    code: int | None = 0
    state: str = "Completed"
    counted: int = 0
    steps: list[str] = field(default_factory=list)

    def end(self, attempt: int, task: str, ended: int) -> End:
        """Return how an attempt of a Task (`<role>-<index>`) ends, of which so many have ended as this object said."""
        several = self.ends[min(attempt, len(self.ends) - 1)].get(task, [self.otherwise])
        return several[min(ended, len(several) - 1)]

    @property
    def is_restartable(self) -> bool:
        """Whether the end is the same although an attempt of the Framework is lost."""
        return self.kind in {"finish", "serve", "rescale", "create"}

    @property
    def tasks(self) -> set[str]:
        return {f"{entry['name']}-{index}" for entry in self.roles for index in range(entry["taskNumber"])}


def draw_life(draw: random.Random, number: int) -> Life:
    """Return a Framework that is drawn at random; its name has the number and its kind."""
    make = draw.choice(KINDS)
    kind = make.__name__
    pod = GANG_POD if draw.random() < 0.3 else POD
    roles = [
        role(name, draw.randint(1, 4), retry=FANCY, pod=pod) for name in ("ps", "worker", "chief")[: draw.randint(1, 3)]
    ]
    life = Life(f"{kind}{number}", kind, roles, {"retryPolicy": FANCY})
    make(life, draw)
    return life


def finish(life: Life, draw: random.Random) -> None:
    """All Tasks succeed, after failures that their policies allow."""
    life.ends = [{task: _failures(draw) for task in sorted(life.tasks)}]
    if len(life.roles) > 1 and draw.random() < 0.4:
        # Servers stay until the workers have succeeded.
        worker = life.roles[1]
        for task in life.tasks:
            if not task.startswith(worker["name"]):
                life.ends[0][task] = ["stay"]
        worker["frameworkAttemptCompletionPolicy"] = {"minSucceededTaskCount": worker["taskNumber"]}


def _failures(draw: random.Random) -> list[End]:
    ends: list[End] = [draw.choice(COUNTED) for _ in range(draw.choice((0, 0, 0, 1, 2)))]
    ends += [draw.choice(TRANSIENT) for _ in range(draw.choice((0, 0, 0, 1, 2)))]
    draw.shuffle(ends)
    return [*ends, 0]


def permanent(life: Life, draw: random.Random) -> None:
    """A Task fails for good."""
    life.otherwise, life.code = "stay", 210
    life.ends = [{draw.choice(sorted(life.tasks)): [210]}]


def again(life: Life, draw: random.Random) -> None:
    """The first attempt of the Framework fails, since a Task fails too often; the next one succeeds."""
    life.counted = 1
    doomed = draw.choice(sorted(life.tasks))
    life.ends = [{task: ["stay"] for task in life.tasks} | {doomed: [draw.choice(COUNTED)]}, {}]


def serve(life: Life, _draw: random.Random) -> None:
    """Runs on."""
    life.otherwise, life.code, life.state = "stay", None, "AttemptRunning"


def stop(life: Life, _draw: random.Random) -> None:
    life.otherwise, life.code, life.steps = "stay", -210, ["stop"]


def delete(life: Life, draw: random.Random) -> None:
    life.otherwise, life.code, life.state = draw.choice(("stay", 0)), None, ""
    life.steps = ["delete"]


def rescale(life: Life, draw: random.Random) -> None:
    """Is rescaled while it runs, then all Tasks succeed."""
    life.otherwise = "stay"
    life.steps = [draw.choice(("scale", "scale", "drop a role", "add a role")) for _ in range(draw.randint(1, 5))]
    life.steps.append("release")


def create(life: Life, _draw: random.Random) -> None:
    """Is created before it is to start."""
    life.spec["executionType"] = "Create"
    life.steps = ["start"]


KINDS = (finish, finish, finish, permanent, again, serve, stop, delete, rescale, rescale, create)
