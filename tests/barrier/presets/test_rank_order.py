"""Ranks in the order of the roster: which presets follow it, and that everything else stays by index."""

import re
from typing import Any

import pytest

from frameworkbarrier.files.container import Container
from frameworkbarrier.presets import model as presets
from tests.barrier.files.written import files, variables
from tests.barrier.gangs import ip, roster

ORDER = [0, 2, 3, 1]
VARIABLES = {"injector.sh", "presets.sh", "env"}
HOSTFILES = {"hostfile", "hostfile.mpich"}
FOLLOW = {
    "accelerate": VARIABLES | {"accelerate.yaml"},
    "deepspeed": VARIABLES | {"deepspeed.hostfile"},
    "horovod": VARIABLES | {"discover_hosts.sh"},
    "jax": VARIABLES,
    "pytorch": VARIABLES,
}
"""The presets whose ranks follow the order, and the files in which Task 2 finds its rank."""


def two_roles(*order: int, **changes: Any) -> dict[str, Any]:
    return roster({"master": 2, "worker": 4}, orders={"master": [0, 1], "worker": list(order or ORDER)}, **changes)


@pytest.mark.parametrize("preset", ["", *presets.names()])
def test_ranks_follow_the_order_where_a_preset_says_so_and_all_else_is_by_index(preset: str) -> None:
    before, after = (
        files(roster({"worker": 4}, orders=orders), "worker", 2, FB_PRESET=preset)
        for orders in (None, {"worker": ORDER})
    )
    assert before.keys() == after.keys()
    changed = {name for name in before if before[name].data != after[name].data}
    assert changed == {"roster.json"} | HOSTFILES | FOLLOW.get(preset, set())


def test_the_presets_that_follow_are_those_that_say_so() -> None:
    assert [name for name in presets.names() if presets.load(name).ranks_by_topology] == sorted(FOLLOW)


RANKS = [
    ("pytorch", "RANK"),
    ("pytorch", "NODE_RANK"),
    ("pytorch", "PET_NODE_RANK"),
    ("jax", "JAX_PROCESS_ID"),
    ("accelerate", "RANK"),
    ("deepspeed", "NODE_RANK"),
]


@pytest.mark.parametrize(("preset", "name"), RANKS)
def test_ranks_go_through_the_roles_in_their_order_and_in_each_through_its_own(preset: str, name: str) -> None:
    def rank(role: str, index: int) -> int:
        return int(variables(two_roles(), role, index, FB_PRESET=preset)[name])

    assert [rank("master", index) for index in range(2)] == [0, 1]
    assert [rank("worker", index) - 2 for index in ORDER] == [0, 1, 2, 3]


def test_rank_0_and_its_address_stay_who_they_are() -> None:
    found = variables(roster({"worker": 4}, orders={"worker": ORDER}), "worker", 1, FB_PRESET="pytorch,jax")
    assert found["RANK"] == "3"
    assert (found["MASTER_ADDR"], found["JAX_COORDINATOR_ADDRESS"]) == (ip(1), f"{ip(1)}:8476")
    assert found["FB_WORKER_IPS"] == ",".join(map(ip, (1, 2, 3, 4)))


def test_the_place_of_a_host_is_its_rank() -> None:
    hosts = [*map(ip, (1, 2, 3, 5, 6, 4))]
    made = files(two_roles(), FB_PRESET="mpi,deepspeed,horovod", FB_SLOTS="8")
    for name in ("hostfile", "deepspeed.hostfile"):
        assert made[name].data.decode() == "".join(f"{host} slots=8\n" for host in hosts)
    assert made["hostfile.mpich"].data.decode() == "".join(f"{host}:8\n" for host in hosts)
    assert re.findall(r"echo (\S+):8", made["discover_hosts.sh"].data.decode()) == hosts
    assert f"HOROVOD_HOSTS='{','.join(f'{host}:8' for host in hosts)}'\n" in made["env"].data.decode()


def test_the_task_that_the_roster_names_has_rank_0_before_the_order() -> None:
    document = two_roles(first="worker-3")
    ranks = [variables(document, "worker", index, FB_PRESET="pytorch")["RANK"] for index in range(4)]
    assert ranks == ["3", "5", "4", "0"]


RANKED = Container(templates={"x": "{% for task in ranks %}{{ task.index }}{% endfor %} {{ me.rank }}"})


@pytest.mark.parametrize(
    ("preset", "text"),
    [
        ("", "0123 2"),
        ("mpi", "0123 2"),
        ("slurm,pytorch", "0123 2"),
        ("pytorch,slurm", "0231 1"),
        ("horovod", "0231 1"),
        ("mpi,jax", "0231 1"),
    ],
)
def test_a_template_has_the_ranks_of_the_first_preset_that_has_some(preset: str, text: str) -> None:
    made = files(roster({"worker": 4}, orders={"worker": ORDER}), "worker", 2, RANKED, FB_PRESET=preset)
    assert made["x"].data.decode() == text
