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
from frameworkhistory.archive.changes import Changes
from tests.client.documents import completion, container, framework, pod, role
from tests.client.documents import task as task_of
from tests.history.page.rooms import NOW, Room

Row = dict[str, Any]
RUNS, FAILED = "/frameworks/speech/conformer", "/frameworks/vision/detector"
BEGAN = NOW - 3 * 3600.0
_BARRIER = "barrier.frameworkcontroller.microsoft.com"
_IMAGE = "registry.example.org/speech/conformer"
_STACK = [
    "/app/conformer/data.py:118 in read_shard",
    "/app/conformer/train.py:64 in step",
    "/app/conformer/train.py:23 in main",
]
_HANG = {"attempt": 0, "epoch": 0, "step": 8400, "silent": 240, "limit": 240, "why": "does not reach the collective"}
_KILLED = {"code": 137, "phrase": "ContainerTransientFailed", "result": "Failed"}


def iso(seconds: float) -> str:
    """Return a time as Kubernetes writes it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


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


# --- one that runs ----------------------------------------------------------------------------------------------------

_FIRST = spans(BEGAN, 0, "queued 780 scheduling 50 starting 140 gate 25 running 3120 hung 240 ending 35 backoff 60")
_LATER = "scheduling 40 starting 95 gate 20 running 2400 restarting 45 running 1150 restarting 150 running"
_SECOND = spans(_FIRST[-1]["ended"], 1, _LATER)
_EPOCHS = [_SECOND[4]["began"], _SECOND[6]["began"]]
_GPUS = {"resources": {"limits": {"nvidia.com/gpu": 8}}}


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
    ledger = {"state": "running", "since": iso(_SECOND[-1]["began"]), "total": total, "attempt": attempt}
    restarts = [
        {
            "epoch": 1,
            "time": iso(_EPOCHS[0]),
            "reason": "Exited",
            "task": "worker-2",
            "code": 137,
            "message": "OOMKilled",
        },
        {
            "epoch": 2,
            "time": iso(_EPOCHS[1]),
            "reason": "PodReplaced",
            "task": "worker-1",
            "message": "node gpu-05 is gone",
        },
    ]
    progress = {"time": iso(NOW - 4), "slowest": 21_930, "fastest": 21_936, "perMinute": 148.2, "ranks": 4}
    return framework(
        worker,
        metadata={"name": "conformer", "namespace": "speech", "uid": "conformer", "creationTimestamp": iso(BEGAN)},
        spec={"description": "Conformer-L on LibriSpeech, 32 GPUs", "retryPolicy": {"fancyRetryPolicy": True}},
        tasks={"worker": [task_of(n, node=f"gpu-{n + 3:02}", ip=f"10.0.3.{n + 11}") for n in range(4)]},
        attempt=1,
        ready="4/4",
        restarts=restarts,
        hangs={"inARow": 1, "bestStep": 8400, "last": hang},
        ledger=ledger,
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


def _runs(own: str, attempt: int, begins: float, ran: float, ended: float | None, ends: list[Row]) -> list[Row]:
    return [
        {
            "attempt": attempt,
            "role": "worker",
            "index": n,
            "run": 0,
            "namespace": own.partition("/")[0],
            "state": "Completed" if ended else "AttemptRunning",
            "node": f"gpu-{(5 if attempt == 0 else 3) + n:02}",
            "pod": f"{own.partition('/')[2]}-worker-{n}",
            "pod_uid": f"{own.partition('/')[2]}-{attempt}-{n}",
            "started": begins + n,
            "ran": ran + 2 * n,
            "ended": ended,
            **end,
        }
        for n, end in enumerate(ends)
    ]


def _running_changes() -> Changes:
    ends = [{"code": -280, "phrase": "TaskHung", "result": "Failed", "diagnostics": "made no progress for 4m"}]
    ends = [{}, {}, ends[0], {}]
    first = {"attempt": 0, "namespace": "speech", "started": BEGAN, "ran": _FIRST[3]["ended"], "tasks": 4, "gpus": 32}
    first |= {
        "ended": _FIRST[5]["ended"],
        "trigger": "worker-2",
        "code": -270,
        "phrase": "GangHung",
        "result": "Failed",
    }
    first |= {
        "diagnostics": "the gang made no progress for 240 s after step 8400 (limit 240 s); culprit: worker-2 on gpu-07"
    }
    second = {
        "attempt": 1,
        "namespace": "speech",
        "started": _SECOND[0]["began"],
        "ran": _SECOND[2]["ended"],
        "tasks": 4,
    }
    began = _SECOND[0]["began"]
    runs = _runs("speech/conformer", 0, _FIRST[0]["ended"], _FIRST[2]["ended"], _FIRST[5]["ended"], ends)
    runs += _runs("speech/conformer", 1, began, _SECOND[2]["ended"], None, [{}] * 4)
    gone = {
        "ended": _EPOCHS[1],
        "code": -200,
        "phrase": "PodNodeLost",
        "result": "Failed",
        "diagnostics": "node gpu-05 is gone",
    }
    runs[5] |= {"node": "gpu-05", **gone}
    runs.append(
        runs[5] | {"run": 1, "node": "gpu-04", "started": _EPOCHS[1] + 12, "ran": _EPOCHS[1] + 120, "ended": None}
    )
    runs[-1] |= {"code": None, "phrase": None, "result": None, "diagnostics": None, "pod_uid": "conformer-1-1"}
    killed = {"reason": "Exited", "task": "worker-2", "code": 137, "message": "OOMKilled"}
    epochs = [
        {"attempt": 1, "epoch": 0, "began": _SECOND[2]["ended"]},
        {"attempt": 1, "epoch": 1, "began": _EPOCHS[0], **killed},
        {
            "attempt": 1,
            "epoch": 2,
            "began": _EPOCHS[1],
            "reason": "PodReplaced",
            "task": "worker-1",
            "message": "node gpu-05 is gone",
        },
    ]
    events = [
        (
            "Normal",
            "Scheduled",
            "Assigned speech/conformer-worker-1 to gpu-04",
            "Pod conformer-worker-1",
            _EPOCHS[1] + 20,
            1,
        ),
        ("Normal", "GangRestarted", "epoch 2: worker-1 was replaced", "Framework conformer", _EPOCHS[1], 1),
        ("Warning", "NodeNotReady", "Node is not ready", "Pod conformer-worker-1", _EPOCHS[1] - 42, 1),
        ("Normal", "GangRestarted", "epoch 1: worker-2 exited with 137", "Framework conformer", _EPOCHS[0], 1),
        ("Warning", "GangHung", first["diagnostics"], "Framework conformer", _FIRST[5]["ended"], 1),
        (
            "Warning",
            "FailedScheduling",
            "0/12 nodes are available: 12 Insufficient nvidia.com/gpu.",
            "Pod conformer-worker-3",
            BEGAN + 700,
            9,
        ),
    ]
    row = {
        "namespace": "speech",
        "name": "conformer",
        "person": "mira",
        "created": BEGAN,
        "seen": NOW,
        "version": "9000",
    }
    row |= {
        "generation": 2,
        "state": "AttemptRunning",
        "attempts": 2,
        "tasks": 4,
        "gpus": 32,
        "restarts": 2,
        "ready": "4/4",
    }
    row |= spent(_FIRST + _SECOND) | {"lost": 420.0, "document": json.dumps(running().to_dict()).encode()}
    specs = [(1, BEGAN, _spec("2.4.0", 6, "3e-4")), (2, began - 30, _spec("2.4.1", 4, "2e-4"))]
    columns = ("type", "reason", "message", "object", "last", "count")
    return Changes(
        "conformer",
        "speech",
        row,
        labels={"team": "asr", "user": "mira"},
        specs=[{"generation": n, "seen": at, "document": json.dumps(one).encode()} for n, at, one in specs],
        attempts=[
            first | spent(_FIRST) | {"lost": 420.0},
            second | spent(_SECOND) | {"gpus": 32, "restarts": 2, "lost": 0.0},
        ],
        epochs=epochs,
        runs=runs,
        spans=_FIRST + _SECOND,
        events=[
            dict(zip(columns, one, strict=True)) | {"uid": str(n), "first": one[4] - 300}
            for n, one in enumerate(events)
        ],
        logs=[_log("conformer", 0, n) for n in range(4)],
    )


def _log(own: str, attempt: int, n: int, gap: str = "") -> Row:
    found = {"pod_uid": f"{own}-{attempt}-{n}", "container": "main", "restart": 0, "attempt": attempt, "role": "worker"}
    found |= {
        "index": n,
        "run": 0,
        "key": "" if gap else f"{own}-{attempt}-{n}",
        "bytes": 48_211 + 977 * n,
        "taken": NOW,
    }
    return found | {"gap": gap}


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
    end = {"code": 1, "phrase": "ContainerPermanentFailed", "result": "Failed"}
    whole = completion(1, "ContainerPermanentFailed", "Permanent", diagnostics=f"worker-1: {_TRACE}")
    whole["trigger"] = {"message": f"worker-1 failed: {_TRACE}", "taskRoleName": "worker", "taskIndex": 1}
    ended = _TRIED[1][-2]["ended"]
    spans_of = _TRIED[0] + _TRIED[1]
    total = spent(spans_of)
    ends: list[Row] = [{}, end | {"diagnostics": f"container main exited with 1: {_TRACE}"}, {}]
    attempts, runs = [], []
    for n, own in enumerate(_TRIED):
        at = {one["state"]: one["ended"] for one in own}
        attempt = {
            "attempt": n,
            "namespace": "vision",
            "started": own[0]["began"],
            "ran": at["gate"],
            "tasks": 3,
            "gpus": 3,
        }
        attempt |= {"ended": at["running"], "trigger": "worker-1", **end, "diagnostics": f"worker-1: {_TRACE}"}
        attempts.append(attempt | spent(own) | {"lost": 0.0})
        runs += _runs("vision/detector", n, at["scheduling"] - 15, at["starting"], at["running"], ends)
    names = {"name": "detector", "namespace": "vision", "uid": "detector", "creationTimestamp": iso(_DETECTOR)}
    tasks = [task_of(0, "Completed", attempt=1), task_of(1, "Completed", attempt=1, end=whole), task_of(2, "Completed")]
    times = {"startTime": iso(_DETECTOR), "completionTime": iso(ended)}
    ledger = {
        "state": "",
        "since": iso(ended),
        "total": total | {"lost": 0.0},
        "attempt": attempts[-1] and spent(_TRIED[1]),
    }
    document = framework(
        role("worker", 3),
        metadata=names,
        state="Completed",
        tasks={"worker": tasks},
        attempt=1,
        end=whole,
        ledger=ledger,
        **times,
    )
    row = {"namespace": "vision", "name": "detector", "person": "jon", "created": _DETECTOR, "completed": ended}
    row |= {
        "deleted": NOW - 3600,
        "seen": NOW - 3600,
        "version": "500",
        "generation": 1,
        "state": "Completed",
        "attempts": 2,
    }
    row |= {"tasks": 3, "gpus": 3, **end, **total, "lost": 0.0, "document": json.dumps(document.to_dict()).encode()}
    gap = {"container": "sidecar", "gap": "the node was gone before its log was read", "key": ""}
    logs = [_log("detector", attempt, n) for attempt in range(2) for n in range(3)]
    labels = {"team": "vision", "user": "jon"}
    own_rows = {"attempts": attempts, "runs": runs, "spans": spans_of, "logs": [*logs, logs[3] | gap]}
    return Changes("detector", "vision", row, labels=labels, **own_rows)


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

_OTHERS = (
    *("speech/tokenizer", "language/llamasft", "language/llamaeval", "vision/resnet50sweep", "vision/segmentation"),
    *(
        "language/rewardmodel",
        "speech/wav2vecpretrain",
        "vision/vithuge",
        "language/datadedup",
        "speech/ttsvocoder",
    ),
)
_WHY = (
    ("ContainerTransientFailed", 137, 5),
    ("ContainerPermanentFailed", 1, 4),
    ("GangHung", -270, 2),
    ("PodNodeLost", -200, 2),
    ("PodEvicted", -201, 1),
)


def others() -> list[Changes]:
    """A week of Frameworks that have ended, the last of them an hour ago, and three that are there."""
    draw, found = random.Random(34), list[Changes]()
    for number in range(160):
        namespace, _, name = draw.choice(_OTHERS).partition("/")
        began = NOW - 5000 - number * 3700 - draw.randrange(2000)
        tasks = draw.choice((1, 1, 2, 4, 8))
        is_bad = draw.random() < 0.22
        told = f"queued {draw.randrange(5, 900)} scheduling {draw.randrange(3, 90)} starting {draw.randrange(20, 200)} "
        told += f"gate {draw.randrange(3, 40)} running {draw.randrange(1200, 14_000)} "
        told += f"hung {draw.choice((0, 0, 0, 300))} restarting {draw.choice((0, 0, 60, 240))} "
        told += f"ending {draw.randrange(5, 40)}"
        own = spans(began, 0, told)
        lost = draw.randrange(1800) * is_bad
        times = spent(own) | {"lost": float(lost)}
        times["running"] = max(0, times["running"] - lost)
        phrase, code, _ = draw.choices(_WHY, [one[2] for one in _WHY])[0] if is_bad else ("Succeeded", 0, 0)
        end = {"code": code, "phrase": phrase, "result": "Failed" if is_bad else "Succeeded"}
        ended = own[-1]["ended"]
        uid, name = f"uid-{number}", f"{name}{160 - number}"
        row = {
            "namespace": namespace,
            "name": name,
            "person": draw.choice(("mira", "jon", "aiko", "sam")),
            "created": began,
        }
        row |= {
            "completed": ended,
            "deleted": ended + 3600 if ended + 3600 < NOW else None,
            "seen": min(NOW, ended + 3600),
        }
        row |= {"version": str(number + 1), "generation": 1, "state": "Completed", "attempts": 1, "tasks": tasks}
        row |= {"gpus": 8 * tasks, **end, **times, "document": b"{}"}
        attempt = {
            "attempt": 0,
            "namespace": namespace,
            "started": began,
            "ended": ended,
            "tasks": tasks,
            **end,
            **times,
        }
        run = {
            "attempt": 0,
            "role": "worker",
            "index": 0,
            "run": 0,
            "namespace": namespace,
            "state": "Completed",
            **end,
        }
        run |= {
            "node": f"gpu-{draw.choice((3, 4, 5, 7, 7, 7, 9)):02}",
            "started": began,
            "ran": began + 60,
            "ended": ended,
        }
        found.append(Changes(uid, namespace, row, attempts=[attempt], runs=[run] if is_bad else []))
    for place, (name, state, tasks) in enumerate(
        (
            ("language/llamasft161", "AttemptRunning", 16),
            ("vision/vithuge162", "AttemptCreationPending", 8),
            ("language/llamaeval163", "AttemptPreparing", 1),
        )
    ):
        namespace, _, own_name = name.partition("/")
        row = {
            "namespace": namespace,
            "name": own_name,
            "person": "aiko",
            "created": NOW - 2900 + 1300 * place,
            "seen": NOW,
        }
        row |= {
            "version": "1",
            "generation": 1,
            "state": state,
            "attempts": 1,
            "tasks": tasks,
            "gpus": 8 * tasks,
            "document": b"{}",
        }
        row |= {"queued": 240.0, "running": 2500.0 if place == 0 else 0.0, "lost": 0.0}
        found.append(Changes(own_name, namespace, row))
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
