"""HiveD does not run here: the Pods are created, each is compared field by field with what HiveD reads, and wait."""

from typing import Any

import yaml

from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example

PREFIX = "hivedscheduler.microsoft.com"
CELLS = {"hived-ps-0": 1, "hived-worker-0": 2, "hived-worker-1": 2}
"""The leaf cells of each Pod."""


def steps(example: Example) -> None:
    """Compare every Pod, check that none was bound, and stop."""
    example.apply()
    example.until("all Pods", lambda: all(example.get(f"pod/{name}") for name in CELLS))
    for name, cells in CELLS.items():
        pod = example.get(f"pod/{name}")
        compare(f"{name}: specification of HiveD", specification(pod), expected(example.namespace, cells))
        (container,) = pod["spec"]["containers"]
        compare(f"{name}: scheduler", pod["spec"]["schedulerName"], "hivedscheduler")
        compare(f"{name}: limit", container["resources"]["limits"][f"{PREFIX}/pod-scheduling-enable"], "1")
        source = {each["name"]: each.get("valueFrom") for each in container["env"]}["NVIDIA_VISIBLE_DEVICES"]
        path = f"metadata.annotations['{PREFIX}/pod-leaf-cell-isolation']"
        compare(f"{name}: source of the devices", source["fieldRef"]["fieldPath"], path)
        compare(f"{name}: node", pod["spec"].get("nodeName"), None)
        example.say(
            f"{name}: {yaml.safe_dump(specification(pod), default_flow_style=True, width=999, sort_keys=False).strip()}"
        )
    members = expected(example.namespace, 1)["affinityGroup"]["members"]
    compare("the cells of all members", sum(m["podNumber"] * m["leafCellNumber"] for m in members), sum(CELLS.values()))
    example.kubectl("patch", "framework", "hived", "--type=merge", '--patch={"spec":{"executionType":"Stop"}}')
    example.ends("Failed")


def specification(pod: Any) -> Any:
    """Return what HiveD reads from a Pod."""
    return yaml.safe_load(pod["metadata"]["annotations"][f"{PREFIX}/pod-scheduling-spec"])


def expected(namespace: str, cells: int) -> dict[str, Any]:
    """Return all fields of the specification."""
    members = [{"podNumber": 1, "leafCellNumber": 1}, {"podNumber": 2, "leafCellNumber": 2}]
    return {
        "virtualCluster": "VC1", "priority": 1000, "leafCellType": "K80", "leafCellNumber": cells,
        "affinityGroup": {"name": f"{namespace}/hived", "members": members},
    }  # fmt: skip


def compare(what: str, found: object, wanted: object) -> None:
    """Fail unless both are equal."""
    if found != wanted:
        raise DemoError(f"{what} is {found!r}, expected {wanted!r}")
