"""One run: faults for so many seconds while users, nodes and controllers work, then a calm, then judgement."""

import contextlib
import random
from pathlib import Path

from localcluster import Cluster
from testkit.frameworks import Frameworks
from testkit.waiting import eventually
from tests.chaos import judge, replicas
from tests.chaos.faults import Faults
from tests.chaos.history import History
from tests.chaos.journal import Journal
from tests.chaos.lives import Life
from tests.chaos.nodes import Nodes
from tests.chaos.patience import persistently
from tests.chaos.replicas import Replica
from tests.chaos.users import Users
from tests.support.background import in_background
from tests.support.beside.kubelet import Kubelet

CONTROLLERS = 3
MAX_MIB, MAX_SOCKETS = 256, 120
"""Of one controller at any moment; it has up to 64 requests in flight, three watches and its health port."""
CALM_SECONDS = 240.0


class Run:
    """A run of chaos in a namespace of its own, on a cluster whose control plane is killed and started again.

    What happens follows from the seed; when it happens follows from the machine, too.
    """

    def __init__(self, cluster: Cluster, frameworks: Frameworks, kubelet: Kubelet, folder: Path, seed: int) -> None:
        self._cluster, self._frameworks, self._folder = cluster, frameworks, folder
        self.journal = Journal(seed)
        self._seed = seed
        self._lives = dict[str, Life]()
        etcd = f"http://127.0.0.1:{cluster.port('etcd')}"
        self._history = History(etcd, frameworks.namespace, self._lives, self.journal)
        self._nodes = Nodes(kubelet, frameworks, self._lives, self.journal)
        self._users = Users(cluster, frameworks, self._lives, self._history, self._draw("users"), self.journal)

    def play(self, seconds: float) -> None:
        """Run it; faults happen for so many seconds."""
        with contextlib.ExitStack() as stack:
            self._controllers = [self._replica(stack, number) for number in range(CONTROLLERS)]
            for step, pause in (
                (self._history.follow_pods, 0.01),
                (self._history.follow_frameworks, 0.01),
                (self._nodes.step, 0.1),
                (self._users.step, 0.1),
            ):
                stack.enter_context(in_background(step, every=pause))
            faults = self._faults = Faults(self._cluster, self._controllers, self._draw("faults"), self.journal)
            faults.rage(seconds)
            self._users.calm()
            faults.calm()
            self._settle()
            self._clean()
        self._conclude()

    def _draw(self, what: str) -> random.Random:
        return random.Random(f"{self._seed}/{what}")

    def _replica(self, stack: contextlib.ExitStack, number: int) -> Replica:
        folder, draw = self._folder / str(number), self._draw(f"proxy {number}")
        replica = Replica(self._cluster, folder, replicas.settings(self._frameworks.namespace), draw)
        stack.callback(replica.end)
        replica.start(works=False)
        return replica

    # --- after the calm ----------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Wait until everything is as it will be, then compare it with what it must be."""

        def is_settled() -> None:
            self._stop_early()
            waiting = judge.unsettled(self._lives, self._history)
            assert not waiting, "\n".join(waiting)

        eventually(is_settled, CALM_SECONDS, interval=0.5)
        wrong = judge.misjudged(self._lives, self._history, self._nodes)
        for name in {text.partition(":")[0] for text in wrong}:
            self._tell(name)
        assert not wrong, "\n".join(wrong)

        def is_tidy() -> None:
            left = persistently(lambda: judge.left_over(self._frameworks, self._lives))
            assert not left, "\n".join(left)

        eventually(is_tidy, CALM_SECONDS, interval=0.5)
        self.journal.note("settled")

    def _clean(self) -> None:
        """Remove everything; nothing may stay behind, and no controller may remember any of it."""
        self._users.hostile.remove()
        for name in self._users.hostile.left():
            self._frameworks.raw.delete(f"{self._frameworks.path}/{name}", {"propagationPolicy": "Foreground"})

        def is_gone() -> None:
            self._stop_early()
            frameworks = self._users.hostile.left()
            assert not frameworks, frameworks
            left = judge.left_over(self._frameworks, {})
            assert not left, "\n".join(left)

        eventually(is_gone, CALM_SECONDS, interval=0.5)

        def is_forgotten() -> None:
            leaders = [each for each in self._controllers if each.leads]
            assert len(leaders) == 1, [each.folder.name for each in leaders]
            memories = ("quarantined_frameworks", "undecodable_objects", "tasks{")
            remembered = tuple(f"frameworkcontroller_{name}" for name in memories)
            left = [line for line in leaders[0].metrics() if line.startswith(remembered) and not line.endswith(" 0.0")]
            assert not left, left

        eventually(is_forgotten, CALM_SECONDS, interval=0.5)
        self.journal.note("removed")

    def _conclude(self) -> None:
        """Check what must hold of the whole run, after all threads have ended."""
        problems = self._nodes.problems + self._history.check(self._nodes)
        assert not problems, "\n".join(problems)
        for each in self._controllers:
            self.journal.note(f"controller {each.folder.name}: at most {each.most[0]} MiB, {each.most[1]} sockets")
            assert each.most[0] <= MAX_MIB, f"controller {each.folder.name} had {each.most[0]} MiB"
            assert each.most[1] <= MAX_SOCKETS, f"controller {each.folder.name} had {each.most[1]} sockets"
        counts = self.journal.counts
        for each in self._controllers:
            counts.update({f"request: {what}": number for what, number in each.proxy.faults.items()})
        for what, number in sorted(counts.items()):
            self.journal.note(f"{number:6} {what}")
        self.journal.note(
            f"{len(self._lives)} Frameworks, {self._history.pods} Pods, {self._history.writes} stored Frameworks"
        )

    def _tell(self, name: str) -> None:
        """Print what the controllers logged about a Framework."""
        lines = [
            f"{line} [controller {each.folder.name}]"
            for each in self._controllers
            for line in each.log.splitlines()
            if f"/{name} " in line
        ]
        print("\n".join(sorted(lines)))

    def _stop_early(self) -> None:
        """Fail by an error that ends every wait, where nothing gets better by waiting."""
        if problems := self._nodes.problems + self._history.problems:
            raise RuntimeError("\n".join(problems))
        self._faults.watch()
