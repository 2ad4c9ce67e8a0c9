"""The pages of docs/migrate: ours beside theirs, and the variables of both."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from frameworkclient.checks.lint import lint
from frameworkclient.checks.problem import Severity
from tests.barrier.files.written import files, variables
from tests.barrier.gangs import ip, roster
from tests.support.pages import blocks
from tests.support.rows import each

ROOT = Path(__file__).parents[1]
PREFIX = "barrier.frameworkcontroller.microsoft.com/"
OPERATOR, VOLCANO = "docs/migrate/training-operator.md", "docs/migrate/volcano.md"
Document = dict[str, Any]


def pairs(page: str) -> list[tuple[Document, Document]]:
    """What stands on the left and on the right of each row."""
    found = [yaml.safe_load(block.text) for block in blocks(page) if block.kind == "yaml"]
    return list(zip(found[::2], found[1::2], strict=True))


def sizes(document: Document) -> dict[str, int]:
    """The number of Pods of each role of a Framework, a Job of Volcano, or a job of the Training Operator."""
    spec = document["spec"]
    if document["apiVersion"].startswith("kubeflow.org/"):
        (replicas,) = [value for key, value in spec.items() if key.endswith("ReplicaSpecs")]
        return {name.lower(): one.get("replicas", 1) for name, one in replicas.items()}
    if document["kind"] == "Job":
        return {one["name"]: one["replicas"] for one in spec["tasks"]}
    return {one["name"]: one["taskNumber"] for one in spec["taskRoles"]}


def beside(kind: str, page: str) -> tuple[dict[str, int], dict[str, str]]:
    """The shape of the Framework beside a job of this kind, and the settings of its barriers."""
    (ours,) = [right for left, right in pairs(page) if left["kind"] == kind]
    (annotations,) = {
        json.dumps(one["task"]["pod"]["metadata"]["annotations"], sort_keys=True) for one in ours["spec"]["taskRoles"]
    }
    settings = {key.removeprefix(PREFIX): value for key, value in json.loads(annotations).items()}
    return sizes(ours), {f"FB_{key.upper().replace('-', '_')}": value for key, value in settings.items()}


@each("page", sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs" / "migrate").glob("*.md")))
def test_each_framework_passes_the_checks_and_has_the_roles_of_what_stands_beside_it(page: str) -> None:
    assert pairs(page)
    for left, right in pairs(page):
        assert left["metadata"]["name"] == right["metadata"]["name"]
        assert sizes(left) == sizes(right)
        assert lint(right) == []
        if left["kind"] == "Framework":
            assert [one for one in lint(left) if one.severity is Severity.ERROR] == []


@each("page, kind", [(OPERATOR, "PyTorchJob"), (VOLCANO, "Job")])
def test_pytorch_finds_the_variables_that_the_page_names(page: str, kind: str) -> None:
    shape, settings = beside(kind, page)
    table = (ROOT / page).read_text().split("## What the program finds\n")[1].split("\n## ")[0]
    names = set(re.findall(r"`((?:MASTER|WORLD|RANK|PET)[A-Z_]*)`", table))
    assert {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"} <= names
    last = shape["worker"] - 1
    for role, index, rank in (("master", 0, 0), ("worker", 0, 1), ("worker", last, last + 1)):
        found = variables(roster(shape), role, index, **settings)
        assert names <= set(found)
        assert (found["RANK"], found["WORLD_SIZE"]) == (str(rank), str(sum(shape.values())))
        assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == (ip(1), "29500")
    named = variables(roster(shape), "worker", 0, **settings, FB_ADDRESSES="name", FB_PORTS="master=23456")
    assert (named["MASTER_ADDR"], named["MASTER_PORT"]) == ("mnist-master-0", "23456")


def test_tensorflow_and_mpi_find_the_same_gang() -> None:
    shape, settings = beside("TFJob", OPERATOR)
    config = json.loads(variables(roster(shape), "ps", 0, **settings)["TF_CONFIG"])
    assert {role: len(addresses) for role, addresses in config.pop("cluster").items()} == shape
    assert config == {"task": {"type": "ps", "index": 0}}
    shape, settings = beside("MPIJob", OPERATOR)
    lines = files(roster(shape), "launcher", 0, **settings)["hostfile"].data.decode().splitlines()
    assert lines == [f"{ip(2)} slots=2", f"{ip(3)} slots=2"]
    assert variables(roster(shape), "launcher", 0, **settings)["OMPI_MCA_orte_default_hostfile"].endswith("/hostfile")
