"""The files that list addresses: /etc/hosts, MPI's hostfiles, one list per role. Pure."""

from collections.abc import Iterator, Mapping

from frameworkbarrier.gate.gang import Gang, Role, Task
from frameworkbarrier.gate.gate import Released
from frameworkbarrier.text import bracketed

LOCALHOST = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
HOSTS_MARK = "# Tasks of the gang, by the barrier.\n"


def hosts_file(released: Released, own_hosts: str, hostname: str) -> str:
    """Return an /etc/hosts for the application: this container's own lines (localhost, hostAliases), then every Task.

    The names of a Task are that of its Pod, `{role}-{index}` and `{pod}.{namespace}`; this Pod has its host name too.
    """
    base = own_hosts.partition(HOSTS_MARK)[0]
    if "localhost" not in base:
        base = LOCALHOST + base
    lines = [base if base.endswith("\n") else base + "\n", HOSTS_MARK]
    for role in released.gang.roles:
        for task in role.tasks:
            names = f"{task.pod} {role.name}-{task.index} {task.pod}.{released.gang.namespace}"
            if hostname and task is released.task and hostname not in names.split():
                names += f" {hostname}"
            lines.append(f"{task.ip}\t{names}\n")
    return "".join(lines)


def hostfile(gang: Gang, slots: Mapping[str, int]) -> str:
    """Return Open MPI's hostfile: `ip slots=n`, roles in the order of the spec; a role with 0 slots is left out.

    The place of a host is its rank.
    """
    return "".join(f"{task.ip} slots={count}\n" for task, count in _with_slots(gang, slots))


def hostfile_mpich(gang: Gang, slots: Mapping[str, int]) -> str:
    """Return the hostfile of Hydra (MPICH, Intel MPI): `ip:n`."""
    return "".join(f"{bracketed(task.ip)}:{count}\n" for task, count in _with_slots(gang, slots))


def _with_slots(gang: Gang, slots: Mapping[str, int]) -> Iterator[tuple[Task, int]]:
    for role in gang.roles:
        if count := slots[role.name]:
            yield from ((role.tasks[index], count) for index in role.by_rank)


def role_hosts(role: Role) -> str:
    """Return the addresses of a role, one per line."""
    return "".join(f"{task.ip}\n" for task in role.tasks)
