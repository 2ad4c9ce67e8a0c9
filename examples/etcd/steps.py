"""A member is killed, the others go on, and it comes back with its identity and with what it has missed."""

from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example

KILLED = "etcd-member-2"


def steps(example: Example) -> None:
    """Write, kill a member, write again without it, and read from the member that replaced it."""
    example.apply()
    healthy(example)
    etcdctl(example, "etcd-member-0", "put", "colour", "blue")
    before = etcdctl(example, "etcd-member-0", "member", "list")
    killed = example.get(f"pod/{KILLED}")["metadata"]["uid"]
    example.kill(KILLED)
    example.until(f"the end of the first {KILLED}", lambda: uid(example) != killed)
    etcdctl(example, "etcd-member-0", "put", "colour", "green")
    healthy(example)
    # From the data of this very member, without asking the others or the leader; by way of the Service.
    alone = f"http://{KILLED}.etcd:2379"
    read = ("get", "colour", "--print-value-only", "--consistency=s")
    colour = etcdctl(example, "etcd-member-0", *read, endpoints=alone)
    after = etcdctl(example, "etcd-member-0", "member", "list")
    if colour.strip() != "green" or after != before:
        raise DemoError(f"{KILLED} says {colour!r}; the members were {before!r} and are {after!r}")
    example.kubectl("patch", "framework", "etcd", "--type=merge", '--patch={"spec":{"executionType":"Stop"}}')
    example.ends("Failed")


def etcdctl(example: Example, pod: str, *arguments: str, endpoints: str = "") -> str:
    """Run etcdctl in a member, by default with the endpoints of the preset, all members; return its output."""
    command = ["env", f"ETCDCTL_ENDPOINTS={endpoints}", "etcdctl"] if endpoints else ["etcdctl"]
    output = example.kubectl("exec", pod, "--container=etcd", "--", *command, *arguments)
    for line in output.splitlines():
        example.say(f"{pod} | {line}")
    return output


def healthy(example: Example) -> None:
    """Wait until each member is ready, that is, has a leader."""
    for index in range(3):
        example.until(f"health of etcd-member-{index}", lambda name=f"etcd-member-{index}": ready(example, name))


def ready(example: Example, name: str) -> bool:
    """Report whether a Pod is ready."""
    conditions = (example.get(f"pod/{name}") or {"status": {}})["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def uid(example: Example) -> str | None:
    """Return the UID of the Pod that is this member now; None if there is none."""
    pod = example.get(f"pod/{KILLED}")
    return pod["metadata"]["uid"] if pod else None
