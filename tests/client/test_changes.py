"""What people type after flags to change a Framework, and which requests a change becomes."""

import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from frameworkclient.aio import AsyncClient
from frameworkclient.cli.commands.writing import delete, numbers_of, submit
from frameworkclient.cli.exits import ExitCode
from frameworkclient.cli.run import Cluster
from frameworkclient.cluster import actions
from frameworkclient.errors import ArgumentError
from frameworkclient.model.set_field import set_field
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.text import duration, seconds_of
from tests.client.documents import SUCCEEDED, framework, role, task, workers
from tests.client.played import FRAMEWORKS, PlayedServer, a_client
from tests.support.kubeconfig import kubeconfig

MANIFEST = {
    "kind": "Framework",
    "metadata": {"name": "training"},
    "spec": {"taskRoles": [{"name": "chief", "taskNumber": 1}, {"name": "worker", "taskNumber": 2}]},
}
SET: dict[str, tuple[tuple[str | int, ...], object]] = {
    "spec.taskRoles[worker].taskNumber=8": (("spec", "taskRoles", 1, "taskNumber"), 8),
    "taskRoles[0].taskNumber=8": (("spec", "taskRoles", 0, "taskNumber"), 8),
    "metadata.name=other": (("metadata", "name"), "other"),
    'metadata.labels["example.org/team"]=vision': (("metadata", "labels", "example.org/team"), "vision"),
    "retryPolicy.fancyRetryPolicy=true": (("spec", "retryPolicy", "fancyRetryPolicy"), True),
    "description=a=b": (("spec", "description"), "a=b"),
    "ttlSecondsAfterFinished=null": (("spec", "ttlSecondsAfterFinished"), None),
}


NOT_SET = {
    "taskNumber": "must be PATH=VALUE",
    "=4": "must be PATH=VALUE",
    "taskRoles[ps].taskNumber=1": "there is no entry ps; there are chief, worker",
    "taskRoles[7].taskNumber=1": "there is no entry 7",
    "metadata.name.first=1": "is a value and has no fields",
    "description={": "the value is not valid YAML",
}


def test_a_field_is_set_by_its_path_and_an_assignment_that_cannot_be_done_is_refused() -> None:
    for assignment, (path, value) in SET.items():
        found: Any = copy.deepcopy(MANIFEST)
        set_field(found, assignment)
        for key in path:
            found = found[key]
        assert found == value, assignment
    for assignment, message in NOT_SET.items():
        with pytest.raises(ArgumentError, match=message):
            set_field(copy.deepcopy(MANIFEST), assignment)


def test_durations_are_read_and_what_is_none_names_the_flag() -> None:
    durations = {"90": 90, "45s": 45, "10m": 600, "1h30m": 5400, "2d": 172_800}
    assert {text: seconds_of(text, "--since") for text in durations} == durations
    for broken in ("", "abc", "10x", "-5", "1.5h", "m"):
        with pytest.raises(ArgumentError, match=r"--since .*: must be a duration, like 45s"):
            seconds_of(broken, "--since")


def test_ages_are_written_as_kubectl_writes_them() -> None:
    ages = {-3: "0s", 41: "41s", 119: "119s", 312: "5m12s", 300: "5m", 3600: "60m", 12_000: "3h20m", 200_000: "2d7h"}
    ages[1_000_000] = "11d"
    assert {seconds: duration(seconds) for seconds in ages} == ages


def test_numbers_of_tasks_are_read_by_role() -> None:
    assert numbers_of(["worker=4", "ps=0"]) == {"worker": 4, "ps": 0}
    for broken in ("worker", "worker=", "=4", "worker=four", "worker=-1"):
        with pytest.raises(ArgumentError, match="must be ROLE=NUMBER, like worker=4"):
            numbers_of([broken])


NOT_SCALED = {
    "role wroker: Framework training has no such role; there are chief, worker": {"wroker": 3},
    "must be 0 or more": {"worker": -1},
    "name at least one role": {},
}


def test_a_scale_checks_that_the_role_is_still_at_its_place_and_names_one_that_cannot_be_scaled() -> None:
    view = framework(role("chief", 1), role("worker", 2))
    assert actions.scale_patch(view, {"worker": 5}) == [
        {"op": "test", "path": "/spec/taskRoles/1/name", "value": "worker"},
        {"op": "add", "path": "/spec/taskRoles/1/taskNumber", "value": 5},
    ]
    for message, tasks in NOT_SCALED.items():
        with pytest.raises(ArgumentError, match=message):
            actions.scale_patch(view, tasks)


def live(**more: Any) -> FrameworkView:
    """A Framework of one Task, with the retry policies of both."""
    own, policy = more.pop("task", task(0)), {"retryPolicy": more.pop("retry", {})}
    return workers(own, retry=more.pop("task_retry", {}), spec=policy, **more)


FANCY, ONE = {"fancyRetryPolicy": True}, {"maxRetryCount": 1}
NOT_CREATED = task(0, "AttemptCreationPending")


def test_a_retry_deletes_the_config_map_of_what_lives_or_the_pod_of_a_task_or_submits_what_is_completed_again() -> None:
    assert actions.retry_of(live(retry=FANCY)) == actions.DeleteConfigMap("training-attempt", "config-map-uid")
    assert actions.retry_of(live(state="Completed", end=SUCCEEDED)) == actions.SubmitAgain()
    found = actions.retry_of(live(task_retry=ONE), "worker-0")
    assert found == actions.DeletePod("training-worker-0", "pod-worker-0-0")


REFUSED: dict[str, tuple[FrameworkView, str, str]] = {
    "policy of the Framework": (live(), "", "its retryPolicy would end it instead .no retries."),
    "policy of the Task": (live(retry=FANCY), "worker-0", r"taskRoles\[worker\].task.retryPolicy"),
    "used": (live(task_retry=ONE, task=task(0, attempt=1)), "worker-0", "would end it instead .1 retry."),
    "no Pod": (live(task_retry=FANCY, task=NOT_CREATED), "worker-0", "it has no Pod that could be replaced"),
    "no such Task": (live(), "worker-7", "has no such Task"),
    "no such role": (live(), "ps-0", "there is no role ps; there are worker"),
    "no name of a Task": (live(), "worker", "must be a role and an index, like worker-0"),
    "ending": (live(retry=FANCY, state="AttemptDeleting"), "", "its attempt ends already"),
    "not begun": (framework(role("worker", 1), state=""), "", "no attempt runs"),
}


@pytest.mark.parametrize(("view", "name", "message"), REFUSED.values(), ids=REFUSED)
def test_a_retry_that_would_do_harm_is_refused(view: FrameworkView, name: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        actions.retry_of(view, name)


def test_what_the_api_server_added_is_not_submitted_again() -> None:
    ours = {"labels": {"team": "vision"}, "annotations": {"note": "mine"}}
    annotations = {**ours["annotations"], "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    metadata = {**ours, "annotations": annotations, "managedFields": []}
    again = actions.again(framework(role("worker", 1), spec={"executionType": "Stop"}, metadata=metadata).to_dict())
    assert again["metadata"] == {"name": "training", "namespace": "demo", **ours}
    assert "status" not in again
    assert again["spec"]["executionType"] == "Start"


def test_ctrl_c_says_of_each_framework_that_was_created_how_to_come_back_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    manifests: list[dict[str, Any]] = [{"metadata": {"name": name, "namespace": "demo"}} for name in ("a", "b", "c")]
    created = list[tuple[str, str]]()

    async def create(_: AsyncClient, manifest: dict[str, Any], **more: Any) -> FrameworkView:
        if manifest["metadata"]["name"] == "c":
            raise KeyboardInterrupt
        return framework(role("worker", 1), metadata=manifest["metadata"])

    async def submitted(client: AsyncClient, *, dry_run: bool) -> ExitCode:
        return await submit(client, manifests, (), created, dry_run=dry_run, wait=True, logs=False)

    monkeypatch.setattr(AsyncClient, "create", create)
    config = kubeconfig(tmp_path / "config")
    for dry_run in (True, False):
        code = Cluster(kubeconfig=config).stay(created, partial(submitted, dry_run=dry_run))
        told = [line.partition("; ")[0] for line in capsys.readouterr().err.splitlines() if line]
        names = () if dry_run else ("a", "b")
        assert told == [
            f"Framework {name} goes on. See it again: frameworkctl logs -f {name} -n demo --kubeconfig {config}"
            for name in names
        ]
        assert code is ExitCode.INTERRUPTED


GONE = "cannot get Framework demo/{}: there is none; check the name and the namespace"
DELETED: dict[tuple[str, ...], tuple[ExitCode, list[str]]] = {
    ("training",): (ExitCode.DONE, []),
    ("a", "training", "b"): (ExitCode.ERROR, [GONE.format("a"), GONE.format("b")]),
}


@pytest.mark.parametrize(("chosen", "ending"), DELETED.items(), ids=map(" ".join, DELETED))
async def test_who_is_not_there_is_named_and_the_others_are_deleted(
    chosen: tuple[str, ...], ending: tuple[ExitCode, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    server = PlayedServer()
    server.objects[FRAMEWORKS]["training"] = framework(role("worker", 1)).to_dict()
    async with a_client(server) as client:
        code = await delete(client, chosen, [], "", wait=True, timeout=10)
    said = [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines() if "cannot" in line]
    assert ((code, said), server.objects[FRAMEWORKS]) == (ending, {})
