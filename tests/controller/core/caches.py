"""What the informers know of a world: late by so many seconds, or of each object just what a test lets them hear."""

from collections import deque

from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.meta import Partial
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.api.pod_group import PodGroup
from frameworkcontroller.api.rank_topology import NODES
from frameworkcontroller.api.workload import KUEUE, Flavor, Workload
from frameworkcontroller.core.machines.orphans import is_hidden_pod, is_unlabelled
from tests.controller.core.world import World


class Caches:
    """The caches of Frameworks, ConfigMaps and Pods, each as late as `lags` says in seconds.

    They begin with a list, which is never late. `refresh` lets a second pass; the `hear_of` methods bring one object up
    to date, and `relist` all of them, for tests in which nothing else does.
    """

    def __init__(self, world: World, lags: tuple[int, int, int] = (0, 0, 0)) -> None:
        self._world = world
        self._lags = lags
        self.relist()

    def relist(self) -> None:
        """List everything."""
        self._listed = {pod.metadata.uid for pod in self._world.pods.values()}
        if self._world.config_map is not None:
            self._listed.add(self._world.config_map.metadata.uid)
        frameworks, config_maps, pods = self._lags
        self._frameworks = deque([self._world.framework], maxlen=frameworks + 1)
        self._config_maps = deque([self._visible_config_map()], maxlen=config_maps + 1)
        self._pods = deque([self._visible_pods()], maxlen=pods + 1)
        self._workloads = deque([self._world.kueue.workload], maxlen=config_maps + 1)
        self._groups = deque([self._world.groups.seen], maxlen=config_maps + 1)

    def _visible_config_map(self) -> Partial | None:
        found = self._world.config_map
        if found is None or is_unlabelled(found.metadata) or self._is_hidden("fw-attempt", found.metadata.uid):
            return None
        return found

    def _visible_pods(self) -> dict[str, Pod]:
        return {name: pod for name, pod in self._world.pods.items() if self._is_visible(name, pod)}

    def _is_visible(self, name: str, pod: Pod) -> bool:
        # A foreign Pod is visible in these tests, with or without the label.
        unlabelled = pod.metadata.controller is not None and is_hidden_pod(pod.metadata)
        return not unlabelled and not self._is_hidden(name, pod.metadata.uid)

    def _is_hidden(self, name: str, uid: str) -> bool:
        return uid not in self._listed and self._world.is_hidden(name, uid)

    # --- time passes -------------------------------------------------------------------------------------------------

    def refresh(self) -> set[str]:
        """A second has passed; the names of the Pods that are seen to have changed."""
        before = self._pods[0]
        self._frameworks.append(self._world.framework)
        self._config_maps.append(self._visible_config_map())
        self._pods.append(self._visible_pods())
        self._workloads.append(self._world.kueue.workload)
        self._groups.append(self._world.groups.seen)
        return _changed(before, self._pods[0])

    @property
    def up_to_date(self) -> bool:
        """Whether no change is still on its way."""
        all_of_them = (self._frameworks, self._config_maps, self._pods, self._workloads, self._groups)
        return all(late[0] == late[-1] for late in all_of_them)

    # --- one object at a time ----------------------------------------------------------------------------------------

    @property
    def outdated_pods(self) -> list[str]:
        """The names of the Pods that there is something to hear of."""
        return sorted(_changed(self._pods[0], self._world.pods))

    def hear_of_framework(self) -> None:
        self._frameworks[0] = self._world.framework

    def show_framework(self, seen: Framework) -> None:
        """Show this state of the Framework until the next second."""
        self._frameworks[0] = seen

    def hide_pod(self, name: str) -> None:
        """Lose the Pod until the next second."""
        self._pods[0].pop(name)

    def hear_of_config_map(self) -> None:
        self._config_maps[0] = self._visible_config_map()

    def hear_of_workload(self) -> None:
        self._workloads[0] = self._world.kueue.workload

    def hear_of_pod(self, name: str) -> None:
        if name in self._world.pods:
            self._pods[0][name] = self._world.pods[name]
        else:
            self._pods[0].pop(name, None)

    # --- what a reconciler sees --------------------------------------------------------------------------------------

    @property
    def framework(self) -> Framework:
        return self._frameworks[0]

    def config_map(self) -> Partial | None:
        return self._config_maps[0]

    def unknown(self, what: str) -> str:
        if what == NODES:
            return "" if self._world.nodes else "labels of nodes are not read"
        if what == KUEUE:
            return "" if self._world.kueue.known else "Kueue is not there"
        return "" if self._world.groups.known else f"groups of {what} are not served"

    def workload(self, _name: str) -> Workload | None:
        return self._workloads[0]

    def flavor(self, name: str) -> Flavor | None:
        return self._world.kueue.flavor_of(name)

    def group(self, _scheduler: str, name: str) -> PodGroup | None:
        return self._groups[0].get(name)

    def node_labels(self, name: str) -> dict[str, str] | None:
        return self._world.nodes.get(name)

    @property
    def groups(self) -> dict[str, PodGroup]:
        """Those that are seen, by name."""
        return self._groups[0]

    def pod(self, name: str) -> Pod | None:
        return self._pods[0].get(name)


def _changed(before: dict[str, Pod], after: dict[str, Pod]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) is not after.get(name)}
