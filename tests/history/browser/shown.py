"""A cluster with something to see, for the browser tests and the pictures of the docs: a week of Frameworks on GPUs.

`speech/conformer` runs: its second attempt, after a hang, and in the third epoch of that. `vision/detector` has failed.
"""

import gzip
import json
import random
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.pods import TaskPod
from frameworkhistory.archive.changes import Changes, Row
from tests.client.documents import completion, container, framework, pod, role
from tests.client.documents import task as task_of
from tests.history.page.rooms import NOW, Room, row

RUNS, FAILED = "/frameworks/speech/conformer", "/frameworks/vision/detector"
PAGES = {
    "list": "/",
    "framework": RUNS,
    "failed": FAILED,
    "log": f"{FAILED}/log",
    "statistics": "/statistics",
    "spec": f"{RUNS}/spec",
}
SCREENS: dict[str, Row] = {
    "light": {"viewport": {"width": 1280, "height": 860}},
    "dark": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 360, "height": 740}, "is_mobile": True},
}
BEGAN = NOW - 3 * 3600.0
_BARRIER = "barrier.frameworkcontroller.microsoft.com"
_IMAGE = "registry.example.org/speech/conformer"
_STACK = [
    "/app/conformer/data.py:118 in read_shard",
    "/app/conformer/train.py:64 in step",
    "/app/conformer/train.py:23 in main",
]
_HANG = {"attempt": 0, "epoch": 0, "step": 8400, "silent": 240, "limit": 240, "why": "does not reach the collective"}


def iso(seconds: float) -> str:
    """Return a time as Kubernetes writes it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def end(code: int, phrase: str, diagnostics: str | None = None) -> Row:
    """Return the columns of an end."""
    told = {} if diagnostics is None else {"diagnostics": diagnostics}
    return {"code": code, "phrase": phrase, "result": "Failed" if code else "Succeeded", **told}


def framework_row(own: str, person: str, created: float, version: int, **columns: Any) -> Row:
    """Return the row of a Framework `namespace/name`."""
    namespace, _, name = own.partition("/")
    names = row(namespace=namespace, name=name, person=person, created=created, version=str(version))
    return {**names, "generation": 1, "attempts": 1, "document": b"{}", **columns}


def stored(document: FrameworkView) -> bytes:
    """Return a Framework as the archive has it."""
    return json.dumps(document.to_dict()).encode()


def spans(began: float, attempt: int, told: str) -> list[Row]:
    """Return rows of times one after another: `queued 360 scheduling 45`; the last one goes on without a number."""
    words, found = [*told.split(), ""], list[Row]()
    for state, seconds in zip(words[::2], words[1::2], strict=False):
        ended = began + float(seconds) if seconds else None
        found.append({"began": began, "ended": ended, "attempt": attempt, "state": state})
        began = ended or began
    return found


def spent(rows: list[Row]) -> dict[str, float]:
    """Return the columns of a ledger of these times."""
    found = Counter[str]()
    for one in rows:
        found[one["state"]] += (one["ended"] or NOW) - one["began"]
    return dict(found)


def _runs(own: str, attempt: int, begins: float, ran: float, ended: float | None, ends: list[Row]) -> list[Row]:
    """Return the run of each worker of an attempt, which ends so."""
    namespace, _, name = own.partition("/")
    state = "Completed" if ended else "AttemptRunning"
    same = row(attempt=attempt, role="worker", run=0, namespace=namespace, state=state, ended=ended)
    found = []
    for n, one in enumerate(ends):
        pod = row(node=f"gpu-{(5 if attempt == 0 else 3) + n:02}", pod=f"{name}-worker-{n}")
        found.append({**same, **pod, "index": n, "pod_uid": f"{name}-{attempt}-{n}", "started": begins + n, **one})
        found[-1]["ran"] = ran + 2 * n
    return found


def _log(own: str, attempt: int, n: int) -> Row:
    key = f"{own}-{attempt}-{n}"
    task = row(attempt=attempt, role="worker", index=n, run=0, gap="")
    return task | row(pod_uid=key, container="main", restart=0, key=key, bytes=48_211 + 977 * n, taken=NOW)


# --- one that runs ----------------------------------------------------------------------------------------------------

_FIRST = spans(BEGAN, 0, "queued 780 scheduling 50 starting 140 gate 25 running 3120 hung 240 ending 35 backoff 60")
_LATER = "scheduling 40 starting 95 gate 20 running 2400 restarting 45 running 1150 restarting 150 running"
_SECOND = spans(_FIRST[-1]["ended"], 1, _LATER)
_RESTARTS = [
    {"epoch": 1, "reason": "Exited", "task": "worker-2", "code": 137, "message": "OOMKilled"},
    {"epoch": 2, "reason": "PodReplaced", "task": "worker-1", "message": "node gpu-05 is gone"},
]
_EPOCHS = [_SECOND[4]["began"], _SECOND[6]["began"]]
"""When each of these began."""
_GPUS = {"resources": {"limits": {"nvidia.com/gpu": 8}}}
_HUNG = "the gang made no progress for 240 s after step 8400 (limit 240 s); culprit: worker-2 on gpu-07"


def _template(tag: str) -> Row:
    main = {"name": "main", "image": f"{_IMAGE}:{tag}", "command": ["python", "-m", "conformer.train"], **_GPUS}
    annotations = {f"{_BARRIER}/progress": "torch", f"{_BARRIER}/hang": "restart"}
    return {"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never", "containers": [main]}}


def _spec(tag: str, workers: int, lr: str) -> Row:
    template = _template(tag)
    template["spec"]["containers"][0]["args"] = ["--lr", lr, "--shards", "/data/librispeech"]
    retry = {"fancyRetryPolicy": True, "maxRetryCount": 5}
    worker = {"name": "worker", "taskNumber": workers, "task": {"retryPolicy": retry, "pod": template}}
    return {"executionType": "Start", "retryPolicy": retry, "taskRoles": [worker]}


def running() -> FrameworkView:
    """`speech/conformer` as it is now."""
    worker = role("worker", 4)
    worker["task"]["pod"] = _template("2.4.1")
    hang = _HANG | {"time": iso(_FIRST[5]["ended"])}
    hang["culprits"] = [{"task": "worker-2", "node": "gpu-07", "section": "load", "stack": _STACK}]
    total = spent(_FIRST + _SECOND) | {"lost": 420.0}
    total["running"] -= 420.0 + NOW - _SECOND[-1]["began"]
    attempt = spent(_SECOND)
    attempt["running"] -= NOW - _SECOND[-1]["began"]
    progress = {"time": iso(NOW - 4), "slowest": 21_930, "fastest": 21_936, "perMinute": 148.2, "ranks": 4}
    return framework(
        worker,
        metadata={"name": "conformer", "namespace": "speech", "uid": "conformer", "creationTimestamp": iso(BEGAN)},
        spec={"description": "Conformer-L on LibriSpeech, 32 GPUs", "retryPolicy": {"fancyRetryPolicy": True}},
        tasks={"worker": [task_of(n, node=f"gpu-{n + 3:02}", ip=f"10.0.3.{n + 11}") for n in range(4)]},
        attempt=1,
        ready="4/4",
        restarts=[one | {"time": iso(at)} for one, at in zip(_RESTARTS, _EPOCHS, strict=True)],
        hangs={"inARow": 1, "bestStep": 8400, "last": hang},
        ledger={"state": "running", "since": iso(_SECOND[-1]["began"]), "total": total, "attempt": attempt},
        of_attempt={"gangEpoch": 2, "progress": progress},
    )


def running_pods() -> dict[str, TaskPod]:
    """The Pods of `speech/conformer`."""
    found = {}
    for n in range(4):
        metadata = {"name": f"conformer-worker-{n}", "namespace": "speech", "uid": f"conformer-1-{n}"}
        metadata["annotations"] = {"FC_FRAMEWORK_ATTEMPT_ID": "1", "FC_TASK_ATTEMPT_ID": "0"}
        metadata["labels"] = {"FC_FRAMEWORK_NAME": "conformer", "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": str(n)}
        more: Row = {"node": f"gpu-{n + 3:02}", "phase": "Running", "statuses": [container()]}
        found[f"worker-{n}"] = pod(f"worker-{n}", metadata=metadata, **more)
    return found


def _running_changes() -> Changes:
    own, began, ran, hung = "speech/conformer", _SECOND[0]["began"], _SECOND[2]["ended"], _FIRST[5]["ended"]
    same = row(namespace="speech", tasks=4, gpus=32)
    first = same | row(attempt=0, started=BEGAN, ran=_FIRST[3]["ended"], ended=hung, trigger="worker-2", lost=420.0)
    second = same | row(attempt=1, started=began, ran=ran, restarts=2, lost=0.0)
    ends = [{}, {}, end(-280, "TaskHung", "made no progress for 4m"), {}]
    runs = _runs(own, 0, _FIRST[0]["ended"], _FIRST[2]["ended"], hung, ends)
    runs += _runs(own, 1, began, ran, None, [{}] * 4)
    runs.append(runs[5] | row(run=1, node="gpu-04", started=_EPOCHS[1] + 12, ran=_EPOCHS[1] + 120))
    runs[-1] |= dict.fromkeys(("code", "phrase", "result", "diagnostics"))
    runs[5] |= {"node": "gpu-05", "ended": _EPOCHS[1], **end(-200, "PodNodeLost", "node gpu-05 is gone")}
    of_pod, of_gang = "Pod conformer-worker-", "Framework conformer"
    unschedulable = "0/12 nodes are available: 12 Insufficient nvidia.com/gpu."
    events = [
        ("Normal", "Scheduled", f"Assigned {own}-worker-1 to gpu-04", f"{of_pod}1", _EPOCHS[1] + 20, 1),
        ("Normal", "GangRestarted", "epoch 2: worker-1 was replaced", of_gang, _EPOCHS[1], 1),
        ("Warning", "NodeNotReady", "Node is not ready", f"{of_pod}1", _EPOCHS[1] - 42, 1),
        ("Normal", "GangRestarted", "epoch 1: worker-2 exited with 137", of_gang, _EPOCHS[0], 1),
        ("Warning", "GangHung", _HUNG, of_gang, hung, 1),
        ("Warning", "FailedScheduling", unschedulable, f"{of_pod}3", BEGAN + 700, 9),
    ]
    columns = ("type", "reason", "message", "object", "last", "count")
    state = row(state="AttemptRunning", generation=2, attempts=2, tasks=4, gpus=32, restarts=2, ready="4/4", seen=NOW)
    spending = spent(_FIRST + _SECOND) | {"lost": 420.0, "document": stored(running())}
    specs = [(1, BEGAN, _spec("2.4.0", 6, "3e-4")), (2, began - 30, _spec("2.4.1", 4, "2e-4"))]
    return Changes(
        "conformer",
        "speech",
        framework_row(own, "mira", BEGAN, 9000, **state, **spending),
        labels={"team": "asr", "user": "mira"},
        specs=[{"generation": n, "seen": at, "document": json.dumps(one).encode()} for n, at, one in specs],
        attempts=[spent(_FIRST) | first | end(-270, "GangHung", _HUNG), spent(_SECOND) | second],
        epochs=[
            {"attempt": 1, "began": at, **one}
            for one, at in zip([{"epoch": 0}, *_RESTARTS], [ran, *_EPOCHS], strict=True)
        ],
        runs=runs,
        spans=_FIRST + _SECOND,
        events=[
            dict(zip(columns, one, strict=True)) | {"uid": str(n), "first": one[4] - 300}
            for n, one in enumerate(events)
        ],
        logs=[_log("conformer", 0, n) for n in range(4)],
    )


# --- one that has failed ----------------------------------------------------------------------------------------------

_DETECTOR = NOW - 9 * 3600.0
_TRACE = (
    "RuntimeError: stack expects each tensor to be equal size, but got [3, 800, 1216] at entry 0 and [3, 800, 1205]"
)
_TRIED = [
    spans(_DETECTOR, 0, "queued 120 scheduling 15 starting 60 gate 10 running 1500 ending 20 backoff 60"),
    spans(_DETECTOR + 1785, 1, "scheduling 20 starting 50 gate 10 running 1480 ending 15"),
]


def failed() -> Changes:
    """`vision/detector`: the second attempt has failed as the first one, and that was the last."""
    own, phrase, why = "vision/detector", "ContainerPermanentFailed", f"worker-1: {_TRACE}"
    ended, lost = _TRIED[1][-2]["ended"], {"lost": 0.0}
    spans_of = _TRIED[0] + _TRIED[1]
    attempts, runs = list[Row](), list[Row]()
    for n, times in enumerate(_TRIED):
        at = {one["state"]: one["ended"] for one in times}
        told = row(namespace="vision", started=times[0]["began"], ran=at["gate"], ended=at["running"])
        told |= row(attempt=n, tasks=3, gpus=3, trigger="worker-1")
        attempts.append(told | end(1, phrase, why) | spent(times) | lost)
        ends = [{}, end(1, phrase, f"container main exited with 1: {_TRACE}"), {}]
        runs += _runs(own, n, at["scheduling"] - 15, at["starting"], at["running"], ends)
    whole = completion(1, phrase, "Permanent", diagnostics=why)
    whole["trigger"] = {"message": f"worker-1 failed: {_TRACE}", "taskRoleName": "worker", "taskIndex": 1}
    total = spent(spans_of) | lost
    tasks = [task_of(0, "Completed", attempt=1), task_of(1, "Completed", attempt=1, end=whole), task_of(2, "Completed")]
    document = framework(
        role("worker", 3),
        metadata={"name": "detector", "namespace": "vision", "uid": "detector", "creationTimestamp": iso(_DETECTOR)},
        state="Completed",
        tasks={"worker": tasks},
        attempt=1,
        end=whole,
        ledger={"state": "", "since": iso(ended), "total": total, "attempt": spent(_TRIED[1])},
        startTime=iso(_DETECTOR),
        completionTime=iso(ended),
    )
    state = row(state="Completed", attempts=2, tasks=3, gpus=3, completed=ended, deleted=NOW - 3600, seen=NOW - 3600)
    logs = [_log("detector", attempt, n) for attempt in range(2) for n in range(3)]
    logs.append(logs[3] | row(container="sidecar", gap="the node was gone before its log was read", key=""))
    return Changes(
        "detector",
        "vision",
        framework_row(own, "jon", _DETECTOR, 500, **state, **end(1, phrase), **total, document=stored(document)),
        labels={"team": "vision", "user": "jon"},
        attempts=attempts,
        runs=runs,
        spans=spans_of,
        logs=logs,
    )


def archived_log(n: int) -> bytes:
    """The log of a worker of `vision/detector` as it is kept."""
    begin, told = _TRIED[1][3]["began"], list[tuple[float, str]]()
    for step in range(40):
        loss = 2.31 * 0.97**step + 0.01 * n
        told.append(
            (begin + 7 * step + n / 9, f"INFO step {20 * step} loss {loss:.4f} images/s {412 - 3 * n} lr 1.0e-4")
        )
    told.insert(1, (begin + 0.5 + n / 9, f"INFO rank {n} of 3 on cuda:0, NCCL 2.21.5"))
    if n == 1:
        last = begin + 281
        told += [(last, "Traceback (most recent call last):"), (last, '  File "/app/train.py", line 88, in <module>')]
        told += [(last, "    images = torch.stack(batch)"), (last, _TRACE)]
    lines = "".join(f"{iso(at)[:-1]}.{at % 1 * 1e9:09.0f}Z {text}\n" for at, text in told)
    return gzip.compress(lines.encode())


def live_line(step: int) -> tuple[str, str]:
    """What a worker of `speech/conformer` writes now: the time and the text."""
    at = iso(NOW - 60 + step / 2)
    return f"{at[:-1]}.{step % 2 * 5:<09}Z", f"INFO step {21_880 + step} loss {1.02 - step / 900:.4f} utt/s 1893"


# --- the others -------------------------------------------------------------------------------------------------------

_OTHERS = """
speech/tokenizer language/llamasft language/llamaeval vision/resnet50sweep vision/segmentation language/rewardmodel
speech/wav2vecpretrain vision/vithuge language/datadedup speech/ttsvocoder
"""
_WHY = (
    ("ContainerTransientFailed", 137, 5),
    ("ContainerPermanentFailed", 1, 4),
    ("GangHung", -270, 2),
    ("PodNodeLost", -200, 2),
    ("PodEvicted", -201, 1),
)
_THERE = (
    ("language/llamasft161", "AttemptRunning", 16, 2500.0),
    ("vision/vithuge162", "AttemptCreationPending", 8, 0.0),
    ("language/llamaeval163", "AttemptPreparing", 1, 0.0),
)


def others() -> list[Changes]:
    """A week of Frameworks that have ended, the last of them an hour ago, and three that are there."""
    draw, found = random.Random(34), list[Changes]()
    for number in range(160):
        own = draw.choice(_OTHERS.split())
        began = NOW - 5000 - number * 3700 - draw.randrange(2000)
        tasks = draw.choice((1, 1, 2, 4, 8))
        is_bad = draw.random() < 0.22
        told = f"queued {draw.randrange(5, 900)} scheduling {draw.randrange(3, 90)} starting {draw.randrange(20, 200)} "
        told += f"gate {draw.randrange(3, 40)} running {draw.randrange(1200, 14_000)} "
        told += f"hung {draw.choice((0, 0, 0, 300))} restarting {draw.choice((0, 0, 60, 240))} "
        told += f"ending {draw.randrange(5, 40)}"
        of_time = spans(began, 0, told)
        lost = draw.randrange(1800) * is_bad
        times = spent(of_time) | {"lost": float(lost)}
        times["running"] = max(0, times["running"] - lost)
        phrase, code, _ = draw.choices(_WHY, [one[2] for one in _WHY])[0] if is_bad else ("Succeeded", 0, 0)
        ended = of_time[-1]["ended"]
        told_of_end = {"namespace": own.partition("/")[0], "attempt": 0, "started": began, "ended": ended}
        told_of_end |= end(code, phrase)
        whole = framework_row(
            f"{own}{160 - number}",
            draw.choice(("mira", "jon", "aiko", "sam")),
            began,
            number + 1,
            **row(state="Completed", completed=ended, seen=min(NOW, ended + 3600), tasks=tasks, gpus=8 * tasks),
            deleted=ended + 3600 if ended + 3600 < NOW else None,
            **end(code, phrase),
            **times,
        )
        run = told_of_end | row(role="worker", index=0, run=0, state="Completed", ran=began + 60)
        run["node"] = f"gpu-{draw.choice((3, 4, 5, 7, 7, 7, 9)):02}"
        attempts, runs = [told_of_end | times | {"tasks": tasks}], [run] if is_bad else []
        found.append(Changes(f"uid-{number}", whole["namespace"], whole, attempts=attempts, runs=runs))
    for place, (own, state, tasks, seconds) in enumerate(_THERE):
        times = row(queued=240.0, running=seconds, lost=0.0)
        columns = row(state=state, tasks=tasks, gpus=8 * tasks, seen=NOW, **times)
        whole = framework_row(own, "aiko", NOW - 2900 + 1300 * place, 1, **columns)
        found.append(Changes(whole["name"], whole["namespace"], whole))
    return found


def everything() -> list[Changes]:
    """All that the archive has."""
    return [*others(), failed(), _running_changes()]


def fill(page: Room) -> None:
    """Let a room have the logs, and what runs."""
    page.keep(**{f"detector-{attempt}-{n}": archived_log(n) for attempt in range(2) for n in range(3)})
    page.live.views["speech/conformer"] = running()
    page.live.tasks = running_pods()
    page.live.lines = [live_line(step) for step in range(40)]
