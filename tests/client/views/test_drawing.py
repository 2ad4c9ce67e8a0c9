"""Frameworks as people see them: tables, the tree of `describe`, lines of changes, the live picture, notebooks.

Gangs of other controllers, too, which the client reads out of their rosters.
"""

import base64
import gzip
import io
import json
from typing import Any

import pytest
from rich.console import Console

from frameworkclient.cli.changes import changes
from frameworkclient.cli.commands.live import speaker
from frameworkclient.cli.describe import description
from frameworkclient.cli.picture import picture
from frameworkclient.cli.tables import frameworks_table
from frameworkclient.cli.terminal import Colours
from frameworkclient.cluster.following import Moment
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.gangs import GangView
from frameworkclient.views.html import framework_html, list_html
from frameworkclient.views.ledger import ledger_of
from frameworkclient.views.pods import Stage
from frameworkcontroller.api.states import LedgerState
from tests.client.documents import (
    BEGIN,
    CULPRIT,
    HANG,
    HANGS,
    HUNG,
    NOW,
    PROGRESS,
    SUCCEEDED,
    Json,
    completion,
    condition,
    container,
    event,
    framework,
    pod,
    role,
    task,
    training,
    workers,
)

PLAIN = Colours()
KILLED = {"name": "main", "code": 137, "reason": "OOMKilled", "message": "step 17"}
PERMANENT = completion(210, "ContainerPermanentFailed", "Permanent")
OOM = completion(137, "ContainerUnrecognizedFailed", pod={"containers": [KILLED]})


def gang(**more: Any) -> FrameworkView:
    """A chief that runs; a worker that is retried, one that cannot be scheduled."""
    return framework(
        role("chief", 1),
        role("worker", 2, retry={"fancyRetryPolicy": True, "maxRetryCount": 2}),
        tasks={
            "chief": [task(0, role="chief", node="node-1", ip="10.0.0.1")],
            "worker": [task(0, "AttemptDeleting", end=OOM), task(1, "AttemptPreparing")],
        },
        ready="1/3",
        **more,
    )


NO_ROOM = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
UNSCHEDULABLE = condition("PodScheduled", "Unschedulable", NO_ROOM) | {"status": "False"}
PODS = {
    "chief-0": pod("chief-0", node="node-1", podIP="10.0.0.1", statuses=[container()]),
    "worker-1": pod("worker-1", conditions=[UNSCHEDULABLE]),
}


def test_a_table_of_frameworks_and_a_wide_one_which_shows_text_of_others_without_its_control_sequences() -> None:
    done = workers(state="Completed", end=SUCCEEDED, ready="0/1")
    assert frameworks_table([gang(), done], NOW, PLAIN) == (
        "NAME       STATE            READY   ATTEMPTS   RESULT      AGE     WAITS FOR\n"
        "training   AttemptRunning   1/3     1                      5m12s   2 Tasks: worker-0, worker-1\n"
        "training   Completed        0/1     1          Succeeded   5m12s\n"
    )
    view = gang(spec={"description": "Trains \x1b[31m\nand \u202e more"})
    table = frameworks_table([view], NOW, Colours(enabled=True), wide=True, with_namespace=True)
    assert table.replace("\x1b[32mAttemptRunning\x1b[0m", "AttemptRunning") == (
        "NAMESPACE   NAME       STATE            READY   ATTEMPTS   RESULT   AGE     WAITS FOR                     "
        "GOODPUT   STEP   ROLES              DESCRIPTION\n"
        "demo        training   AttemptRunning   1/3     1                   5m12s   2 Tasks: worker-0, worker-1   "
        "-                chief:1 worker:2   Trains and more\n"
    )
    for lost, share in ((None, "unknown"), (0, "76 %")):
        (line,) = frameworks_table([spent(lost)], NOW, PLAIN, wide=True).splitlines()[1:]
        assert f" {share}  " in line


def spent(lost: float | None = 0, **ledger: Any) -> FrameworkView:
    """A Framework that runs since five minutes after some time in a queue, and a short one without a node."""
    total = {"queued": 100.0, "scheduling": 0.25, "lost": lost}
    found = {"state": "running", "since": BEGIN, "total": total, "attempt": {"scheduling": 0.25}} | ledger
    return workers(task(0), ledger=found)


def test_a_description_says_what_failed_and_what_follows() -> None:
    last = {"epoch": 2, "time": BEGIN, "reason": "Exited", "task": "worker-1", "code": 137, "message": "OOMKilled"}
    seen = [
        event("AttemptStarted", "ConfigMap training-attempt created"),
        event("BackOff", "why", "Pod/training-worker-0", type="Warning", count=7),
    ]
    view = gang(spec={"retainPods": "OnFailure"}, restarts=[last])
    assert description(view, PODS, seen, NOW, PLAIN) == (
        """\
Framework   demo/training
State       AttemptRunning, 1/3 ready
Waits for   2 Tasks: worker-0, worker-1
Age         5m12s, first ran 5m12s ago
Retries     no retries; 0 so far, 0 of them count
Restarted   in its Pods, 2 times; the last time, worker-1 exited with 137: OOMKilled
Pods stay   those that have failed

Roles
├─ chief: 1 Task
│  └─ chief-0  AttemptRunning  running  node-1  10.0.0.1
└─ worker: 2 Tasks, each: transient failures always, 2 retries
   ├─ worker-0  AttemptDeleting
   │    ContainerUnrecognizedFailed (137): OOMKilled: step 17
   │    is retried: attempt 2
   └─ worker-1  AttemptPreparing  not scheduled
        Unschedulable: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.

Events
LAST SEEN    TYPE      REASON           OBJECT                  MESSAGE
5m12s        Normal    AttemptStarted   Framework training      ConfigMap training-attempt created
5m12s (x7)   Warning   BackOff          Pod training-worker-0   why
"""
    )


def test_a_description_says_for_whom_an_application_waits_that_has_ended() -> None:
    held = [task(0, of_attempt={"held": True}), *(task(index, of_attempt={"held": False}) for index in (1, 2))]
    shown = description(workers(*held), {}, [], NOW, PLAIN)
    assert "worker-0  AttemptRunning\n   │    has ended, waits for 2 others\n" in shown
    assert shown.count("has ended") == 1


def test_a_description_says_what_the_time_was_spent_on() -> None:
    told = """
Time: goodput 76 %
  qqqqqqqqqqqqqqqsRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRR
  STATE          TOTAL   SHARE   THIS ATTEMPT
  q queued       100s    24%     0s
  s scheduling   0.2s    0%      0.2s
  R running      5m12s   76%     5m12s

Roles
"""
    assert told in description(spent(), {}, [], NOW, PLAIN)
    assert "goodput unknown" in description(spent(None), {}, [], NOW, PLAIN)
    over = spent(state="", since="2026-01-01T00:00:00Z")
    assert "running" not in description(over, {}, [], NOW, PLAIN).partition("Time")[2].partition("Roles")[0]
    assert "Time" not in description(spent(total={}, attempt={}, state=""), {}, [], NOW, PLAIN)


CHECKPOINT = {"checkpoint": 1000, "checkpointTime": BEGIN}
AT, NO_CHECKPOINT = "step 1200..1204 of 2 Tasks", "no checkpoint is known"
PROGRESSES: dict[str, tuple[dict[str, Any], str, str]] = {
    "nothing": (dict.fromkeys(("slowest", "perMinute", "fastest")), "", f"no step yet of 2 Tasks; {NO_CHECKPOINT}"),
    "no rate yet": ({"perMinute": None, "fastest": 1200}, "1200", f"step 1200 of 2 Tasks; {NO_CHECKPOINT}"),
    "all": (CHECKPOINT, "1200 4.5/min", f"{AT}; 4.5/min; last checkpoint at 1000, 5m12s ago"),
    "no number": ({"checkpointTime": BEGIN}, "1200 4.5/min", f"{AT}; 4.5/min; last checkpoint 5m12s ago"),
    "huge": ({"perMinute": 1e300}, "1200 1000000000/min", f"{AT}; 1000000000/min; {NO_CHECKPOINT}"),
}


@pytest.mark.parametrize(("differing", "step", "line"), PROGRESSES.values(), ids=PROGRESSES)
def test_how_far_a_gang_is_stands_in_a_wide_list_in_a_description_and_in_lines_of_changes(
    differing: dict[str, Any], step: str, line: str
) -> None:
    view = training(progress=PROGRESS | differing)
    head, row = frameworks_table([view], NOW, PLAIN, wide=True).splitlines()
    assert row[head.index("STEP") : head.index("ROLES")].strip() == step
    assert f"\nProgress    {line}; as of 20s ago\n" in description(view, {}, [], NOW, PLAIN)
    assert changes(None, Moment(view), NOW) == [
        "training: AttemptRunning, 2/2 ready" + (f", step {step}" if step else "")
    ]


def test_tasks_of_which_nothing_is_known_are_named() -> None:
    view = training(progress=PROGRESS | {"leftOut": ["a-0", "b-0\x1b[2J"]})
    assert "; as of 20s ago; nothing is known of a-0, b-0\n" in description(view, {}, [], NOW, PLAIN)


def hung_part(view: FrameworkView) -> str:
    rest = description(view, {}, [], NOW, PLAIN).partition("\nRoles\n")[0].partition("\nH")[2]
    heading, _, lines = rest.partition("\n")
    assert heading == ("" if not lines else "angs" if view.hang else "ung")
    return lines


def test_a_description_says_what_hangs_where_since_when_and_what_was_done() -> None:
    view = training(progress=PROGRESS | {"hang": HANG})
    told = """\
  since       2026-01-01 12:02:02 UTC, 3m10s ago, after step 1200
  found       2026-01-01 12:04:12 UTC, after 2m10s without progress; the limit is 2m
  culprit     worker-1 on node node-1, in section evaluate: is behind the others
                at /app/train.py:31 in wait
                called from /app/train.py:12 in step
  done        nothing: hangs are only observed
  now         it still hangs
"""
    assert hung_part(view) == told
    assert changes(None, Moment(view), NOW) == ["training: AttemptRunning, 2/2 ready, step 1200 4.5/min, hung"]
    assert "\n\x1b[1;31mHangs\x1b[0m\n" in description(view, {}, [], NOW, Colours(enabled=True))
    assert hung_part(training()) == ""
    odd = {**HANG, "culprits": [], "why": "not known", "step": None, "silent": 10**30}
    assert "  culprit     not known\n" in hung_part(training(progress=PROGRESS | {"hang": odd}))
    evil = {**HANG, "culprits": [{**CULPRIT, "stack": ["\x1b[2J\nx"], "section": "\x1b[31mred"}], "why": "\u202e"}
    shown = hung_part(training(progress=PROGRESS | {"hang": evil}))
    assert all(line.isprintable() for line in shown.splitlines())
    assert "node-1, in section red:\n                at  x\n" in shown


TASK_HUNG = completion(-280, "TaskHung", "Transient", diagnostics=HUNG)
GANG_HUNG = completion(-270, "GangHung", "Transient", diagnostics=HUNG)
REPEATED = completion(-275, "GangHungRepeatedly", "Permanent", diagnostics=HUNG)
EPOCH = {"epoch": 1, "time": BEGIN, "reason": "Hung", "message": HUNG}
NEW_POD = {"epoch": 1, "time": BEGIN, "reason": "PodReplaced", "task": "worker-1"}
IN_PLACE, AGAIN = {"gangEpoch": 0}, {"gangEpoch": 1}
HANGS_NOW = PROGRESS | {"hang": HANG}
LATER = PROGRESS | {"hang": HANG | {"attempt": 1, "time": "2026-01-01T12:04:50Z"}}
BEGINS, EPOCH_1 = "its restart begins", "the gang restarted in its Pods as epoch 1"
REPLACED = "its culprits ended with TaskHung (-280), and the gang restarted as epoch 1"
ENDED, OBSERVED = "attempt 1 ended with GangHung", "nothing: hangs are only observed"


def hung(*tasks: Json, **more: Any) -> FrameworkView:
    """One whose hang the controller has noted, and which restarts."""
    return training("restart", *tasks, hangs=HANGS, **more)


DONE: dict[str, tuple[FrameworkView, str]] = {
    "asked before it ends": (training("restart", progress=HANGS_NOW), BEGINS),
    "heard of": (hung(of_attempt=IN_PLACE), BEGINS),
    "in its Pods": (hung(restarts=[EPOCH], of_attempt=AGAIN), EPOCH_1),
    "long ago": (hung(of_attempt={"gangEpoch": 12}), EPOCH_1),
    "Tasks end": (
        hung(task(0), task(1, "AttemptDeleting", end=TASK_HUNG), of_attempt=IN_PLACE),
        "worker-1 ended with TaskHung (-280)",
    ),
    "Tasks have ended": (hung(restarts=[NEW_POD], of_attempt=AGAIN), REPLACED),
    "ends": (hung(end=GANG_HUNG), f"{ENDED} (-270)"),
    "retried": (hung(attempt=1), f"{ENDED} (-270) and was retried"),
    "over": (hung(attempt=1, of_attempt=IN_PLACE), "attempt 1 ended"),
    "not retried": (hung(end=GANG_HUNG, state="Completed"), f"{ENDED} (-270) and was not retried"),
    "repeatedly": (hung(end=REPEATED, state="Completed"), f"{ENDED}Repeatedly (-275) and was not retried"),
    "observed, after others": (training(progress=LATER, attempt=1, hangs=HANGS), OBSERVED),
    "observed, and over": (training(progress=HANGS_NOW, end=PERMANENT, state="Completed"), OBSERVED),
}


def test_a_description_says_whether_a_gang_that_hung_goes_on() -> None:
    for differing, line in (
        ({"slowest": 1001}, "it goes on, at step 1001"),
        ({"slowest": 1001, "time": "2026-01-01T12:04:00Z"}, "nothing is known since"),
        ({"slowest": None, "fastest": None}, "nothing is known since"),
        ({"hang": HANG}, "nothing is known since"),
    ):
        later = hung(of_attempt=AGAIN, progress=PROGRESS | differing)
        assert hung_part(later).endswith(f"\n  now         {line}\n"), differing


@pytest.mark.parametrize(("view", "done"), DONE.values(), ids=DONE)
def test_a_description_says_what_has_followed_from_a_hang_and_how_often_in_a_row(
    view: FrameworkView, done: str
) -> None:
    shown = hung_part(view)
    assert f"\n  done        {done}\n" in shown
    assert ("\n  now         it still hangs\n" in shown) is (view.hang is not None)
    assert ("\n  now " in shown) is (view.status is not None and view.status.completion is None)
    is_counted = view.status and view.status.hangs and not done.startswith("nothing")
    assert ("  in a row    2 times, without a step beyond 1200\n" in shown) is bool(is_counted)


@pytest.mark.parametrize("number", [-1e9, 1.8e307])
def test_whatever_a_ledger_says_is_drawn(number: float) -> None:
    numbers = dict.fromkeys(LedgerState, number)
    for one in (spent(total=numbers, attempt=numbers), spent(total=numbers, state="\x1b[2J")):
        assert "\x1b" not in description(one, {}, [], NOW, PLAIN)
        assert len(description(one, {}, [], NOW, PLAIN)) < 2000


def test_a_bar_shows_each_state_and_never_is_longer() -> None:
    many = dict.fromkeys(LedgerState, 0.001) | {"running": 1e6}
    view = ledger_of(spent(total=many, attempt={}, state=""), NOW)
    assert view is not None
    bar = "".join(part for _, part in view.bar(60))
    assert (len(bar), set(bar)) == (60, set("qwsigRHreb"))
    assert len("".join(part for _, part in view.bar(3))) == 10


def test_a_description_of_the_end_names_the_task_that_decided() -> None:
    trigger = {"message": "m", "taskRoleName": "worker", "taskIndex": 0}
    end = {**OOM, "diagnostics": "Pod failed: because", "trigger": trigger}
    view = workers(task(0, "Completed", end=OOM), state="Completed", end=end, ready="0/1")
    assert description(view, {}, [], NOW, PLAIN) == (
        """\
Framework   demo/training
State       Completed
Result      ContainerUnrecognizedFailed (137), by worker-0
            Pod failed: because
Age         5m12s, first ran 5m12s ago
Retries     no retries; 0 so far, 0 of them count

Roles
└─ worker: 1 Task
   └─ worker-0  Completed  ContainerUnrecognizedFailed
        ContainerUnrecognizedFailed (137): OOMKilled: step 17
"""
    )


def test_changes_are_told_once() -> None:
    before = Moment(gang(), PODS)
    assert changes(None, before, NOW) == [
        "training: AttemptRunning, 1/3 ready",
        "chief-0: running, on node-1, 10.0.0.1",
        "worker-1: not scheduled (Unschedulable: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.)",
    ]
    after = Moment(before.view, {**PODS, "worker-1": pod("worker-1", node="node-2")})
    assert changes(before, after, NOW) == ["worker-1: starting, on node-2"]
    assert changes(after, after, NOW) == []


def test_the_end_of_a_barrier_is_a_failure_only_before_its_program_has_started() -> None:
    barrier = container("frameworkbarrier", "terminated", exitCode=143)
    for program, stage in (("terminated", Stage.RUNNING), ("waiting", Stage.BARRIER_FAILED)):
        assert pod(init=[barrier], statuses=[container("main", program)], phase="Running").stage is stage


def test_the_log_that_is_shown_is_that_of_who_leads() -> None:
    speakers = {"ps worker": "ps-0", "worker chief": "chief-0", "worker driver head": "head-0", "": ""}
    for roles, expected in speakers.items():
        tasks = {name: [task(0, role=name)] for name in roles.split()}
        assert speaker(framework(*(role(name, 1) for name in tasks), tasks=tasks)) == expected


def test_the_picture_shows_tasks_and_the_end_of_a_log_and_of_many_tasks_those_with_problems() -> None:
    def drawn(moment: Moment, log: list[str], width: int) -> str:
        stream = io.StringIO()
        Console(file=stream, width=width, color_system=None).print(picture(moment, log, "log of chief-0", NOW, 24))
        return stream.getvalue()

    shown = drawn(Moment(gang(), PODS), [f"step {number}" for number in range(50)], 170)
    waits = "waits for 2 Tasks: worker-0, worker-1"
    for text in ("demo/training 5m12s", waits, "chief-0", "OOMKilled: step 17; is retried", "step 49"):
        assert text in shown
    assert "step 20" not in shown
    assert len(shown.splitlines()) <= 24
    tasks = [task(number, node="[b]n", ip="10.0.0.1") for number in range(100)]
    tasks[77] = task(77, "AttemptDeleting", end=OOM)
    pods = {f"worker-{number}": pod(f"worker-{number}", node="n", statuses=[container()]) for number in range(100)}
    shown = drawn(Moment(workers(*tasks, ready="99/100"), pods), [], 100)
    assert "worker-77" in shown
    assert "[b]n" in shown, "it is no markup"
    assert "and 87 more" in shown


def test_a_notebook_shows_tables_and_no_markup_of_others() -> None:
    view = workers(task(0, "Completed", end=completion(1, "<b>bold</b>")))
    html = framework_html(view, NOW)
    assert "<td>worker-0</td>" in html
    assert "&lt;b&gt;bold&lt;/b&gt; (1)" in html
    assert "<b>" not in html
    assert "<td>training</td>" in list_html([view], NOW)


OWNER = {"namespace": "default", "name": "train", "uid": "u", "attemptID": 2, "attemptInstanceUID": "2_c"}
ROSTER: dict[str, Any] = {"version": 1, "framework": OWNER, "ready": 3, "total": 14, "complete": False}
META = {"name": "x", "uid": "c", "resourceVersion": "1", "namespace": "default"}
JOB_SET = {**META, "labels": {"frameworkcontroller.microsoft.com/gang": "JobSet"}}
MISSING = {"task": "worker-3", "why": "has no Pod yet"}
WAITS = "JobSet default/train is {}, {}/14 ready, attempt 2".format
EXPLAINED: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "waiting": ({"waitingFor": [MISSING]}, "Waiting", [WAITS("waiting", 3), "worker-3: has no Pod yet", "and 10 more"]),
    "never": ({"never": "x is y"}, "Impossible", [WAITS("impossible", 3), "it can never be complete: x is y"]),
    "complete": ({"ready": 14, "complete": True}, "Complete", [WAITS("complete", 14)]),
}


@pytest.mark.parametrize(("differing", "state", "lines"), EXPLAINED.values(), ids=EXPLAINED)
def test_a_gang_says_what_keeps_it_also_where_its_roster_is_packed(
    differing: dict[str, Any], state: str, lines: list[str]
) -> None:
    text = json.dumps(ROSTER | differing)
    packed = base64.b64encode(gzip.compress(text.encode())).decode()
    for content in ({"data": {"roster": text}}, {"binaryData": {"roster.gz": packed}}):
        found = GangView(json.dumps({"metadata": JOB_SET, **content}).encode())
        assert (found.state, list(found.explain())) == (state, lines)


NO_GANGS = {
    "nothing": ({}, "missing required field `metadata`"),
    "no object": ([], "Expected `object`"),
    "no roster": ({"metadata": META, "data": {"roster": "{"}}, "Input data was truncated"),
    "not packed": ({"metadata": META, "binaryData": {"roster.gz": "AAAA"}}, "incorrect header check"),
}


@pytest.mark.parametrize(("document", "message"), NO_GANGS.values(), ids=NO_GANGS)
def test_anything_else_is_no_gang(document: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GangView(json.dumps(document).encode())
