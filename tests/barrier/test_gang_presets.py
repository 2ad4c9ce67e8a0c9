"""What the presets make of a gang: who is the head, ranks, names, slots, and what they refuse."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from frameworkbarrier import settings
from frameworkbarrier.errors import SettingsError
from frameworkbarrier.files import render
from frameworkbarrier.files.container import Container
from frameworkbarrier.files.output import File
from tests.barrier.gangs import environment, ip, released, roster


def files(document: dict[str, Any], role: str, index: int, preset: str, **environ: str) -> dict[str, File]:
    read = settings.parse(environment(role, index, FB_PRESET=preset, **environ))
    return {file.name: file for file in render.render(released(document, role, index), read, Container()).files}


def variables(shape: dict[str, int], role: str, index: int, preset: str, **environ: str) -> dict[str, str]:
    made = files(roster(shape), role, index, preset, **environ)["env"].data.decode()
    return dict(line.split("=", 1) for line in made.replace("'", "").splitlines())


@pytest.mark.parametrize("nnodes", ["3:4", "1:1"])
def test_a_gang_with_which_torchrun_would_wait_in_vain_is_refused(nnodes: str) -> None:
    with pytest.raises(SettingsError, match=rf"preset pytorch: FB_NNODES={nnodes} .*, but 2 Pods have ranks"):
        variables({"worker": 2, "viewer": 9}, "worker", 0, "pytorch", FB_NNODES=nnodes)


@pytest.mark.parametrize(
    ("preset", "name", "value"),
    [
        ("pytorch", "MASTER_ADDR", "mnist-worker-0"),
        ("pytorch", "PET_RDZV_ENDPOINT", "mnist-worker-0:29500"),
        ("jax", "JAX_COORDINATOR_ADDRESS", "mnist-worker-0:8476"),
        ("deepspeed", "MASTER_ADDR", "mnist-worker-0"),
        ("ray", "RAY_ADDRESS", "mnist-worker-0:6379"),
        ("horovod", "HOROVOD_HOSTS", "mnist-worker-0:1,mnist-worker-1:1"),
        ("etcd", "ETCD_INITIAL_ADVERTISE_PEER_URLS", "http://mnist-worker-1:2380"),
        ("etcd", "ETCD_LISTEN_PEER_URLS", f"http://{ip(2)}:2380"),
        ("kafka", "KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://mnist-worker-1:9092"),
        ("kafka", "KAFKA_CONTROLLER_QUORUM_VOTERS", "0@mnist-worker-0:9093,1@mnist-worker-1:9093"),
        ("kafka", "KAFKA_LISTENERS", "PLAINTEXT://:9092,CONTROLLER://:9093"),
        ("paddle", "PADDLE_MASTER", f"{ip(1)}:6170"),
        ("lightgbm", "LIGHTGBM_MACHINES", f"{ip(1)}:12400,{ip(2)}:12400"),
    ],
)
def test_names_stand_where_a_program_looks_one_up_and_addresses_where_it_needs_one(
    preset: str, name: str, value: str
) -> None:
    found = variables({"worker": 2}, "worker", 1, preset, FB_ADDRESSES="name")
    assert found[name] == value


def test_a_name_is_one_of_the_hosts_file_and_stays_when_its_task_is_retried() -> None:
    document = roster({"worker": 2}, generation=2)
    document["taskRoles"][0]["tasks"][0][1:4] = ["10.7.7.7", "0badcafe", 1]
    made = files(document, "worker", 1, "pytorch", FB_ADDRESSES="name")
    assert b"10.7.7.7\tmnist-worker-0 " in made["hosts"].data
    assert b"MASTER_ADDR='mnist-worker-0'" in made["env"].data


HEADS = [("ray", "head", "RAY_ADDRESS"), ("dask", "scheduler", "DASK_SCHEDULER_ADDRESS"), ("spark", "master", "MASTER")]


@pytest.mark.parametrize(("preset", "head", "name"), HEADS)
def test_the_head_is_found_by_the_name_of_its_role_or_by_the_setting(preset: str, head: str, name: str) -> None:
    shape = {"worker": 2, head: 1, "other": 2}
    assert f"{ip(3)}:" in variables(shape, "worker", 1, preset)[name]
    assert f"{ip(4)}:" in variables(shape, head, 0, preset, FB_HEAD_ROLE="other")[name]
    assert f"{ip(1)}:" in variables({"node": 3, "spare": 0}, "node", 2, preset)[name]


@pytest.mark.parametrize(("preset", "head", "name"), HEADS)
def test_a_gang_in_which_nobody_or_everybody_would_be_the_head_is_refused_with_advice(
    preset: str, head: str, name: str
) -> None:
    with pytest.raises(SettingsError, match=rf"preset {preset}: none of .* a, b is named {head}.*FB_HEAD_ROLE=a "):
        variables({"a": 1, "b": 2}, "a", 0, preset)
    with pytest.raises(SettingsError, match=rf"preset {preset}: role {head} has 2 Tasks.*FB_HEAD_ROLE={head} "):
        variables({"worker": 1, head: 2}, "worker", 0, preset)
    assert f"{ip(2)}:" in variables({"worker": 1, head: 2}, "worker", 0, preset, FB_HEAD_ROLE=head)[name]


@pytest.mark.parametrize("chosen", ["driver", "spare"])
def test_a_head_role_that_has_no_tasks_is_refused(chosen: str) -> None:
    with pytest.raises(SettingsError, match=rf"FB_HEAD_ROLE: there is no role '{chosen}' with Tasks; there are worker"):
        variables({"worker": 1, "spare": 0}, "worker", 0, "ray", FB_HEAD_ROLE=chosen)


def test_the_tracker_of_xgboost_is_a_role_of_its_own_or_in_the_pod_of_rank_0() -> None:
    assert variables({"worker": 2, "tracker": 1}, "worker", 1, "xgboost")["DMLC_TRACKER_URI"] == ip(3)
    found = variables({"worker": 2, "master": 1}, "worker", 1, "xgboost")
    assert (found["DMLC_TRACKER_URI"], found["DMLC_TASK_ID"], found["DMLC_NUM_WORKER"]) == (ip(3), "2", "3")
    assert "DMLC_TASK_ID" not in variables({"worker": 2, "tracker": 1}, "tracker", 0, "xgboost")


def ipv6() -> dict[str, Any]:
    document = roster({"worker": 2})
    for index, task in enumerate(document["taskRoles"][0]["tasks"]):
        task[1] = f"fd00::{index + 1}"
    return document


@pytest.mark.parametrize("preset", ["horovod", "lightgbm", "paddle"])
def test_a_program_that_cannot_read_ipv6_is_not_started_with_it(preset: str) -> None:
    with pytest.raises(SettingsError, match=rf"preset {preset}: .*IPv6"):
        files(ipv6(), "worker", 0, preset)


def test_horovod_reads_names_where_the_addresses_are_ipv6() -> None:
    made = files(ipv6(), "worker", 0, "horovod", FB_ADDRESSES="name")
    assert b"HOROVOD_HOSTS='mnist-worker-0:1,mnist-worker-1:1'" in made["env"].data


@pytest.mark.parametrize("preset", ["ray", "dask", "spark", "etcd", "kafka", "pytorch", "jax", "tensorflow"])
def test_an_ipv6_address_stands_in_brackets_before_a_port(preset: str) -> None:
    made = files(ipv6(), "worker", 0, preset)["env"].data.decode()
    assert "[fd00::1]:" in made
    assert not re.search(r"(?<!\[)fd00::[0-9]\]?:[0-9]", made.replace("[fd00::", "["))


def test_the_discovery_script_of_horovod_prints_hosts_and_slots(tmp_path: Path) -> None:
    document = roster({"launcher": 1, "worker": 2})
    document["taskRoles"][1]["gpus"] = 4
    file = files(document, "launcher", 0, "horovod")["discover_hosts.sh"]
    script = tmp_path / "discover_hosts.sh"
    script.write_bytes(file.data)
    script.chmod(file.mode)
    out = subprocess.run([script], capture_output=True, text=True, check=True).stdout
    assert out == f"{ip(2)}:4\n{ip(3)}:4\n"


@pytest.mark.parametrize(
    ("environ", "slots"), [({}, "8"), ({"FB_SLOTS": "2"}, "2"), ({"FB_SLOTS": "worker=3"}, "3")], ids=str
)
def test_slots_are_the_gpus_of_the_pods_unless_the_settings_say_otherwise(environ: dict[str, str], slots: str) -> None:
    document = roster({"worker": 2})
    document["taskRoles"][0]["gpus"] = 8
    made = files(document, "worker", 1, "deepspeed", **environ)
    assert made["deepspeed.hostfile"].data.decode() == f"{ip(1)} slots={slots}\n{ip(2)} slots={slots}\n"
    assert made["hostfile"].data == made["deepspeed.hostfile"].data
    assert files(document, "worker", 1, "mpi")["hostfile"].data.decode() == f"{ip(1)} slots=1\n{ip(2)} slots=1\n"


def test_the_place_of_a_host_in_deepspeeds_hostfile_is_its_rank() -> None:
    document = roster({"worker": 2, "master": 1})
    hosts = files(document, "worker", 0, "deepspeed")["deepspeed.hostfile"].data.decode().split("\n")
    for role, index in (("master", 0), ("worker", 0), ("worker", 1)):
        found = variables({"worker": 2, "master": 1}, role, index, "deepspeed")
        assert hosts[int(found["NODE_RANK"])].startswith(f"{ip(3 if role == 'master' else index + 1)} ")


def test_a_task_without_a_rank_has_no_configuration_of_accelerate_by_which_it_would_be_rank_0() -> None:
    made = files(roster({"worker": 2, "viewer": 1}), "viewer", 0, "accelerate")
    assert "accelerate.yaml" not in made
    assert b"ACCELERATE_CONFIG_FILE" not in made["env"].data


def test_the_configuration_of_accelerate_counts_processes_by_the_gpus_or_by_the_setting() -> None:
    document = roster({"worker": 2})
    document["taskRoles"][0]["gpus"] = 4
    text = files(document, "worker", 1, "accelerate")["accelerate.yaml"].data.decode()
    found = dict(line.split(": ") for line in text.splitlines())
    assert (found["num_machines"], found["num_processes"], found["machine_rank"]) == ("2", "8", "1")
    assert (found["distributed_type"], json.loads(found["main_process_ip"])) == ("MULTI_GPU", ip(1))
    text = files(document, "worker", 1, "accelerate", FB_NPROC_PER_NODE="2")["accelerate.yaml"].data.decode()
    assert "num_processes: 4\n" in text


@pytest.mark.parametrize("environ", [{"FB_NPROC_PER_NODE": "2"}, {"FB_SLOTS": "2"}], ids=str)
def test_several_processes_of_accelerate_on_cpus_are_refused_because_its_launcher_starts_one(
    environ: dict[str, str],
) -> None:
    with pytest.raises(SettingsError, match=r"preset accelerate: .* would wait for 2: leave .* at 1, or .* torchrun"):
        files(roster({"worker": 2}), "worker", 0, "accelerate", **environ)


def test_a_driver_of_spark_is_reached_by_its_address_also_by_workers_that_began_before_it() -> None:
    early = roster({"master": 1, "worker": 2, "driver": 0})
    assert b"driver" not in files(early, "worker", 0, "spark")["hosts"].data
    found = variables({"master": 1, "worker": 2, "driver": 1}, "driver", 0, "spark", FB_ADDRESSES="name")
    assert (found["MASTER"], found["SPARK_LOCAL_HOSTNAME"]) == ("spark://mnist-master-0:7077", ip(4))


@pytest.mark.parametrize(
    ("generation", "attempt", "state"),
    [(1, 0, "new"), (5, 0, "existing"), (5, 1, "new")],
    ids=["first", "added", "retried"],
)
def test_only_a_member_that_was_added_later_joins_an_existing_cluster(
    generation: int, attempt: int, state: str
) -> None:
    document = roster({"etcd": 3}, generation=generation)
    document["taskRoles"][0]["tasks"][2][3] = attempt
    made = files(document, "etcd", 2, "etcd")["env"].data.decode()
    assert f"ETCD_INITIAL_CLUSTER_STATE='{state}'" in made


def test_clients_of_etcd_know_its_endpoints_and_are_no_members() -> None:
    found = variables({"etcd": 2, "client": 1}, "client", 0, "etcd", FB_PORTS="etcd=12379")
    assert found["ETCDCTL_ENDPOINTS"] == f"http://{ip(1)}:12379,http://{ip(2)}:12379"
    assert not {"ETCD_NAME", "ETCD_LISTEN_PEER_URLS"} & set(found)


def test_brokers_of_kafka_are_controllers_unless_these_have_a_role_of_their_own() -> None:
    both = variables({"broker": 2, "client": 1}, "broker", 1, "kafka")
    assert (both["KAFKA_PROCESS_ROLES"], both["KAFKA_NODE_ID"], both["CLUSTER_ID"]) == (
        "broker,controller",
        "1",
        "0_cm-uid",
    )
    shape = {"broker": 2, "controller": 1, "client": 1}
    broker, controller = (variables(shape, role, 0, "kafka") for role in ("broker", "controller"))
    assert (broker["KAFKA_PROCESS_ROLES"], broker["KAFKA_LISTENERS"]) == ("broker", "PLAINTEXT://:9092")
    assert (controller["KAFKA_PROCESS_ROLES"], controller["KAFKA_LISTENERS"]) == ("controller", "CONTROLLER://:9093")
    assert (broker["KAFKA_NODE_ID"], controller["KAFKA_NODE_ID"]) == ("1", "0")
    assert broker["KAFKA_CONTROLLER_QUORUM_VOTERS"] == f"0@{ip(3)}:9093"
    assert "KAFKA_ADVERTISED_LISTENERS" not in controller


def test_more_brokers_of_kafka_change_no_node_id() -> None:
    for brokers in (1, 5):
        shape = {"broker": brokers, "controller": 3}
        assert variables(shape, "controller", 2, "kafka")["KAFKA_NODE_ID"] == "2"
        assert variables(shape, "broker", 0, "kafka")["KAFKA_NODE_ID"] == "3"


def test_clients_of_kafka_know_its_brokers_and_are_none() -> None:
    found = variables({"broker": 2, "controller": 1, "client": 1}, "client", 0, "kafka", FB_PORTS="broker=19092")
    assert found["KAFKA_BOOTSTRAP_SERVERS"] == f"{ip(1)}:19092,{ip(2)}:19092"
    assert not {"KAFKA_NODE_ID", "KAFKA_PROCESS_ROLES", "KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS"} & set(found)


def test_a_template_of_a_user_may_refuse_the_gang_and_use_what_presets_use() -> None:
    read = settings.parse(environment("worker", 1, FB_PRESET="ray"))
    opened = released(roster({"worker": 2, "head": 1}), "worker", 1)
    text = "{{ head.name | host }} {{ nnodes }} {{ gang.id }} {{ me.attempt }} {{ roles[0].gpus }}"
    made = render.render(opened, read, Container(templates={"x": text})).files
    assert next(file for file in made if file.name == "x").data.decode() == f"{ip(3)} None 0_cm-uid 0 0"
    with pytest.raises(SettingsError, match=r"^we need three workers$"):
        render.render(opened, read, Container(templates={"x": "{{ fail('we need three workers') }}"}))


@pytest.mark.parametrize(
    "name", ["discover_hosts.sh", "env", "hosts", "generation", "framework.json", "worker.hosts", ""]
)
def test_a_template_may_not_replace_a_file_of_a_preset_or_of_the_barrier(name: str) -> None:
    read = settings.parse(environment("worker", 0, FB_PRESET="horovod"))
    with pytest.raises(
        SettingsError, match=f"template {name}.j2: '{name or 'nothing'}' is the name of a file of the barrier"
    ):
        render.render(released(roster({"worker": 1})), read, Container(templates={name: "x"}))
