"""What the presets make of a gang: who is the head, ranks, names, slots, and what they refuse.

The golden texts show what presets write; here is what a single text cannot say.
"""

import re
from typing import Any

import pytest

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.presets import model as presets
from tests.barrier.files.written import files, rendered, variables
from tests.barrier.gangs import ip, roster

ROLES = {"worker": 2, "dashboard": 1}


def exported(preset: str, role: str, **environ: str) -> set[str]:
    """Names of the variables that a Task of a role gets from a preset."""
    roles = {"FB_RANK_ROLES": "worker", "FB_HEAD_ROLE": "dashboard"}
    found = variables(roster(ROLES), role, FB_PRESET=preset, **roles, **environ)
    return {name for name in found if not name.startswith("FB_")}


@pytest.mark.parametrize("preset", presets.names())
def test_a_task_gets_all_variables_of_a_preset_that_are_not_optional_and_no_unknown_one(preset: str) -> None:
    known = presets.variables([preset])
    needed = {name for name, optional in known.items() if not optional}
    for role in ROLES:
        assert needed <= exported(preset, role) <= known.keys()


@pytest.mark.parametrize("preset", presets.names())
def test_a_variable_is_optional_only_if_some_task_lacks_it(preset: str) -> None:
    loaded = presets.load(preset)
    grow = set(loaded.short_variables) | loaded.long
    optional = {name for name, optional in presets.variables([preset]).items() if optional}
    always = exported(preset, "dashboard") & exported(preset, "worker", FB_NPROC_PER_NODE="gpu")
    assert optional == set(loaded.variables) - always | grow | {f"{name}_FILE" for name in grow}


def test_the_variables_of_several_presets_are_those_of_each_in_order_and_once() -> None:
    jax, tensorflow = presets.variables(["jax"]), presets.variables(["tensorflow"])
    assert [*presets.variables(["jax", "tensorflow", "jax"]).items()] == [*jax.items(), *tensorflow.items()]
    assert tensorflow == {"TF_CONFIG": True, "TF_CONFIG_FILE": True}


def test_presets_are_listed_in_the_order_of_their_places() -> None:
    assert sorted(presets.in_order()) == sorted(presets.names())
    assert presets.in_order()[:4] == ("tensorflow", "pytorch", "jax", "mpi")
    places = [presets.load(name).place for name in presets.in_order()]
    assert len(set(places)) == len(places)


def test_a_variable_of_two_presets_is_there_once_and_as_the_first_says() -> None:
    assert presets.variables(["pytorch", "deepspeed"])["MASTER_ADDR"] is False
    assert "LOCAL_RANK" in exported("deepspeed,pytorch", "worker")
    made = files(roster({"master": 1, "worker": 1}), FB_PRESET="deepspeed,pytorch", FB_PORTS="master=1")
    assert re.findall("^MASTER_PORT=.*", made["env"].data.decode(), re.MULTILINE) == ["MASTER_PORT='1'"]


@pytest.mark.parametrize(
    ("shape", "first", "rank"),
    [
        ({"worker": 3}, "", "1"),
        ({"worker": 3}, "worker-1", "0"),
        ({"worker": 3}, "worker-2", "2"),
        ({"driver": 1, "worker": 3}, "driver-0", "2"),
        ({"left": 1, "worker": 2}, "left-0", "2"),
    ],
)
def test_the_first_has_rank_0_and_its_role_comes_first(shape: dict[str, int], first: str, rank: str) -> None:
    assert variables(roster(shape, first=first), "worker", 1, FB_PRESET="pytorch")["RANK"] == rank


HEADS = [("ray", "head", "RAY_ADDRESS"), ("dask", "scheduler", "DASK_SCHEDULER_ADDRESS"), ("spark", "master", "MASTER")]


@pytest.mark.parametrize(("preset", "head", "name"), HEADS)
def test_the_head_is_found_by_the_setting_or_the_first_or_by_the_name_of_its_role(
    preset: str, head: str, name: str
) -> None:
    def address(shape: dict[str, int], role: str, first: str = "", **environ: str) -> str:
        return variables(roster(shape, first=first), role, FB_PRESET=preset, **environ)[name]

    shape = {"worker": 2, head: 1, "other": 2}
    assert f"{ip(3)}:" in address(shape, "worker")
    assert f"{ip(4)}:" in address(shape, head, FB_HEAD_ROLE="other")
    assert f"{ip(2)}:" in address(shape, head, first="worker-1")
    assert f"{ip(4)}:" in address(shape, head, first="worker-1", FB_HEAD_ROLE="other")
    assert f"{ip(1)}:" in address({"node": 3, "spare": 0}, "node")
    with pytest.raises(SettingsError, match=rf"preset {preset}: none of .* a, b is named {head}.*FB_HEAD_ROLE=a "):
        address({"a": 1, "b": 2}, "a")
    with pytest.raises(SettingsError, match=rf"preset {preset}: role {head} has 2 Tasks.*FB_HEAD_ROLE={head} "):
        address({"worker": 1, head: 2}, "worker")
    assert f"{ip(2)}:" in address({"worker": 1, head: 2}, "worker", FB_HEAD_ROLE=head)


@pytest.mark.parametrize(
    ("generation", "attempt", "state"),
    [(1, 0, "new"), (5, 0, "existing"), (5, 1, "new")],
    ids=["first", "added", "retried"],
)
def test_only_a_member_of_etcd_that_was_added_later_joins_an_existing_cluster(
    generation: int, attempt: int, state: str
) -> None:
    document = roster({"etcd": 3}, generation=generation)
    document["taskRoles"][0]["tasks"][2][3] = attempt
    assert variables(document, "etcd", 2, FB_PRESET="etcd")["ETCD_INITIAL_CLUSTER_STATE"] == state


@pytest.mark.parametrize(("nproc", "world"), [("1", "2"), ("8", "16"), ("auto", None), ("gpu", None), ("cpu", None)])
def test_a_world_size_that_only_torchrun_can_know_is_left_out_and_this_is_said(nproc: str, world: str | None) -> None:
    environ = {"FB_PRESET": "pytorch", "FB_NPROC_PER_NODE": nproc}
    found, said = variables(roster({"worker": 2}), **environ), rendered(roster({"worker": 2}), **environ).warnings
    assert found.get("WORLD_SIZE") == world
    assert (found["PET_NNODES"], found["PET_NPROC_PER_NODE"], found["RANK"]) == ("2", nproc, "0")
    assert [warning.split(":")[0] for warning in said] == ([] if world else ["WORLD_SIZE is not set"])


LAUNCHED, NOT_COUNTED = {"launcher": 1, "worker": 2}, {"worker": 8}


@pytest.mark.parametrize(
    ("shape", "environ", "hosts"),
    [
        (LAUNCHED, {}, {2: 1, 3: 1}),
        (LAUNCHED, {"FB_SLOTS": "8"}, {2: 8, 3: 8}),
        (LAUNCHED, {"FB_SLOTS": "launcher=1,worker=8"}, {1: 1, 2: 8, 3: 8}),
        (LAUNCHED, {"FB_SLOTS": "launcher=2"}, {1: 2}),
        (LAUNCHED, {"FB_RUN_LAUNCHER_AS_WORKER": "true"}, {1: 1, 2: 1, 3: 1}),
        (LAUNCHED, {"FB_RUN_LAUNCHER_AS_WORKER": "true", "FB_SLOTS": "worker=2"}, {2: 2, 3: 2}),
        ({"launcher": 2, "worker": 0}, {}, {1: 1, 2: 1}),
        ({"master": 1, "worker": 1}, {}, {1: 1, 2: 1}),
    ],
)
def test_a_launcher_has_no_slots_unless_the_settings_say_so_or_nobody_else_has(
    shape: dict[str, int], environ: dict[str, str], hosts: dict[int, int]
) -> None:
    made = files(roster(shape, gpus=NOT_COUNTED), next(iter(shape)), FB_PRESET="mpi", **environ)
    assert made["hostfile"].data.decode() == "".join(f"{ip(number)} slots={slots}\n" for number, slots in hosts.items())
    assert made["hostfile.mpich"].data.decode() == "".join(f"{ip(number)}:{slots}\n" for number, slots in hosts.items())


def test_processes_of_accelerate_are_those_of_the_setting_and_a_task_without_a_rank_has_no_configuration() -> None:
    document = roster({"worker": 2, "viewer": 1}, gpus={"worker": 4})
    made = files(document, "worker", 1, FB_PRESET="accelerate", FB_NPROC_PER_NODE="2")
    assert b"num_processes: 4\n" in made["accelerate.yaml"].data
    # By its file it would be rank 0.
    assert "accelerate.yaml" not in files(document, "viewer", FB_PRESET="accelerate")


def ipv6() -> dict[str, Any]:
    document = roster({"worker": 2})
    for index, task in enumerate(document["taskRoles"][0]["tasks"]):
        task[1] = f"fd00::{index + 1}"
    return document


@pytest.mark.parametrize("preset", ["horovod", "lightgbm", "paddle"])
def test_a_program_that_cannot_read_ipv6_is_not_started_with_it(preset: str) -> None:
    with pytest.raises(SettingsError, match=rf"preset {preset}: .*IPv6"):
        files(ipv6(), FB_PRESET=preset)


@pytest.mark.parametrize("preset", ["ray", "dask", "spark", "etcd", "kafka", "pytorch", "jax", "tensorflow"])
def test_an_ipv6_address_stands_in_brackets_before_a_port(preset: str) -> None:
    made = files(ipv6(), FB_PRESET=preset)["env"].data.decode()
    assert "[fd00::1]:" in made
    assert not re.search(r"(?<!\[)fd00::[0-9]\]?:[0-9]", made.replace("[fd00::", "["))


NOBODY_TRAINS = r"preset tensorflow: none of the roles .*FB_TF_ROLES=trainer=worker"
NO_ROLE = r"there is no role 'driver'"
ONE_PROCESS = r"preset accelerate: .* would wait for 2: leave .* at 1, or .* torchrun"
WHOSE_RANKS = r"none of the roles learner, actor .*FB_RANK_ROLES=learner,actor"
TRAINERS = {"trainer": 1, "worker": 1}
VIEWED = {"worker": 2, "viewer": 9}
MASTERED = {"master": 1, "worker": 1}
REFUSALS: list[tuple[str, dict[str, int], dict[str, str], str]] = [
    ("pytorch", VIEWED, {"FB_NNODES": "3:4"}, r"preset pytorch: FB_NNODES=3:4 .*, but 2 Pods have ranks"),
    ("pytorch", VIEWED, {"FB_NNODES": "1:1"}, r"preset pytorch: FB_NNODES=1:1 .*, but 2 Pods have ranks"),
    ("accelerate", {"worker": 2}, {"FB_NPROC_PER_NODE": "2"}, ONE_PROCESS),
    ("accelerate", {"worker": 2}, {"FB_SLOTS": "2"}, ONE_PROCESS),
    ("accelerate", MASTERED, {"FB_SLOTS": "worker=1"}, "preset accelerate: master-0, the first .* no slots: .*SLOTS"),
    ("tensorflow", {"trainer": 2}, {}, NOBODY_TRAINS),
    ("tensorflow", {"ps": 1, "trainer": 2}, {}, NOBODY_TRAINS),
    ("tensorflow", {"evaluator": 1, "worker": 0, "trainer": 1}, {}, NOBODY_TRAINS),
    ("tensorflow", TRAINERS, {"FB_TF_ROLES": "driver=worker"}, f"FB_TF_ROLES: {NO_ROLE}"),
    ("tensorflow", TRAINERS, {"FB_TF_ROLES": "trainer=worker"}, "trainer=worker, but worker is the worker too"),
    ("pytorch", {"learner": 1, "actor": 2}, {}, f"preset pytorch: {WHOSE_RANKS}"),
    ("jax", {"learner": 1, "actor": 2}, {}, f"preset jax: {WHOSE_RANKS}"),
    ("pytorch", {"trainer": 1, "worker": 0}, {"FB_RANK_ROLES": "driver"}, f"FB_RANK_ROLES: {NO_ROLE}"),
    ("pytorch", {"trainer": 1, "worker": 0}, {"FB_RANK_ROLES": "worker"}, "FB_RANK_ROLES: .*have no Tasks"),
    ("ray", {"worker": 1}, {"FB_HEAD_ROLE": "driver"}, f"FB_HEAD_ROLE: {NO_ROLE} with Tasks; there are worker"),
    ("ray", {"worker": 1, "spare": 0}, {"FB_HEAD_ROLE": "spare"}, "FB_HEAD_ROLE: there is no role 'spare' with"),
    ("", {"ps": 1, "worker": 1}, {"FB_PORTS": "driver=1"}, rf"FB_PORTS: {NO_ROLE}.*ps, worker"),
]


@pytest.mark.parametrize(("preset", "shape", "environ", "says"), REFUSALS, ids=str)
def test_a_gang_that_cannot_work_is_refused_with_advice(
    preset: str, shape: dict[str, int], environ: dict[str, str], says: str
) -> None:
    with pytest.raises(SettingsError, match=says):
        files(roster(shape), next(iter(shape)), FB_PRESET=preset, **environ)
