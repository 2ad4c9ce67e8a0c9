"""Why a whole Framework does not run; Tasks that wait for the same reason share one finding."""

from collections.abc import Iterator, Sequence
from typing import Final

from frameworkclient.diagnosis.evidence import MESSAGE, Evidence, Finding
from frameworkclient.diagnosis.queue import TODO, queue_finding
from frameworkclient.diagnosis.tasks import CREATION, advice, finding_of
from frameworkclient.views.ledger import ledger_of
from frameworkclient.views.outlook import UNSEEN_SECONDS, cause, condition, ending, needs, retry_time
from frameworkclient.views.pods import Stage
from frameworkclient.views.progress import began, restarts_by_itself, unknown_for
from frameworkclient.views.text import duration, listed, shorten, since
from frameworkcontroller.api import names
from frameworkcontroller.api.states import COMPLETING, State

_NO_PLACE: Final = "wait until others end, or ask for less; kubectl describe nodes says what there is"


def findings(evidence: Evidence) -> list[Finding]:
    """Return why the Framework does not run, the most important reason first; [] if all its Tasks run."""
    found = _findings(evidence)
    if not evidence.is_gone or evidence.view.finished:
        return found
    # It has no next step, and what its Tasks waited for, their Pods would say.
    return [Finding(one.what) for one in found if not one.tasks]


def _findings(evidence: Evidence) -> list[Finding]:
    view = evidence.view
    if view.problem:
        return [
            Finding(
                f"the controller leaves it alone, because it cannot be read: {shorten(view.problem, MESSAGE)}",
                f"correct it, or delete it and submit it again; {evidence.program} events {view.name} may say more",
            )
        ]
    if view.status is None:
        return [_unseen(evidence)]
    if view.finished:
        return [_completed(evidence)]
    if (suspended := condition(view, "Suspended")) is not None:
        return [_suspended(evidence, suspended.reason, suspended.message)]
    if view.status.state is State.ATTEMPT_COMPLETED:
        how = f" ({ending(view.status.completion)})" if view.status.completion is not None else ""
        loop = condition(view, "CrashLoop")
        waits = f"it waits for {retry_time(view, evidence.now)}" if loop is None else shorten(loop.message, MESSAGE)
        return [Finding(f"its attempt {view.attempts} is over{how}; {waits}")]
    # Tasks with the same reason stand together.
    tasks: dict[tuple[str, str], list[str]] = {}
    for one in _reasons(evidence):
        tasks.setdefault((one.what, one.todo), []).extend(one.tasks)
    return [Finding(what, todo, tuple(named)) for (what, todo), named in tasks.items()]


def _unseen(evidence: Evidence) -> Finding:
    age = since(evidence.view.created, evidence.now)
    if (evidence.now - evidence.view.created).total_seconds() < UNSEEN_SECONDS:
        return Finding(f"it was created {age} ago, and the controller has not seen it yet")
    return Finding(
        f"the controller has not seen it, {age} after its creation",
        "ask whether the controller runs and looks at this namespace: "
        "kubectl get pods -A -l app.kubernetes.io/name=frameworkcontroller",
    )


def _completed(evidence: Evidence) -> Finding:
    view = evidence.view
    result = view.result
    assert result is not None
    if result.succeeded:
        return Finding("it is Completed and has succeeded")
    why = cause(view)
    again = "submit it again" if evidence.is_gone else f"run it again: {evidence.program} retry {view.name}"
    return Finding(
        f"it is Completed and has failed{why}", f"{advice(CREATION, why, 'correct the reason')}, and {again}"
    )


def _suspended(evidence: Evidence, reason: str, message: str) -> Finding:
    if reason == "ExecutionTypeCreate":
        return Finding(
            "it was created with executionType Create and waits to be started",
            f"{evidence.program} start {evidence.view.name}",
        )
    if reason == "Suspended":
        return Finding("it is suspended", f"{evidence.program} resume {evidence.view.name}")
    if reason in TODO:
        return queue_finding(evidence, reason, message)
    todo = f"{evidence.program} scale {evidence.view.name} ROLE=NUMBER" if reason == "TooManyTasks" else ""
    return Finding(shorten(message, MESSAGE), todo)


def _reasons(evidence: Evidence) -> Iterator[Finding]:
    """Yield what holds up an attempt that runs, one Task at a time."""
    view = evidence.view
    if (loop := condition(view, "CrashLoop")) is not None:
        events = f"{evidence.program} events {view.name}"
        yield Finding(shorten(loop.message, MESSAGE), f"{events} says how they end; correct the template")
    yield from _progress(evidence)
    is_over = view.status is not None and view.status.state in COMPLETING
    groups = view.conditions.get("GangScheduled")
    has_place = groups is None or groups.status == "True" or is_over
    if groups is not None and not has_place:
        yield Finding(shorten(groups.message, MESSAGE), TODO.get(groups.reason, _NO_PLACE))
    for role in view.roles:
        if role.waits and not is_over:
            yield Finding(f"role {role.name} waits until {needs(role)}")
    if is_over:
        yield Finding(f"its attempt ends{cause(view)}")
    for role in view.roles:
        if role.waits and not is_over:
            continue
        for task in role.tasks:
            pod = evidence.pods.get(task.name)
            found = finding_of(evidence, task, pod)
            if found is not None and (has_place or (pod is not None and pod.stage is not Stage.NOT_SCHEDULED)):
                yield Finding(found.what, found.todo, (task.name,))
    for name, pod in evidence.pods.items():
        if pod.lacks_barrier:
            yield Finding(
                "its Pod has the label of the barrier and no barrier: the injector has not seen it",
                "ask whether the injector is installed and selects this namespace, then retry the Framework",
                (name,),
            )


def _progress(evidence: Evidence) -> Iterator[Finding]:
    """Yield what hangs, or that nobody knows whether anything does."""
    view = evidence.view
    if (hang := view.hang) is not None:
        # Whose nodes are named to be looked at, the status knows, not the verdict.
        tasks = filter(None, (view.task(one.task) for one in hang.culprits))
        nodes = " ".join(dict.fromkeys(task.node for task in tasks if task.node))
        look = f"kubectl describe node {nodes}" if nodes else f"{evidence.program} describe {view.name}"
        again = "" if restarts_by_itself(view) else "the annotation hang: restart lets it start again by itself; "
        yield Finding(
            f"it hangs since {since(began(hang), evidence.now)}: {shorten(hang.text, MESSAGE)}",
            f"look where it hangs: {look}; {again}a process that waits for a disk may be unkillable, by deletion too",
        )
    elif (unknown := unknown_for(view, evidence.now)) is not None:
        pod, seconds = unknown
        yield Finding(
            f"nothing is known of its progress for {duration(seconds)}, although it runs and its Pods tell of it",
            f"the barrier says why: kubectl logs {pod} -n {view.namespace} -c {names.BARRIER_CONTAINER}; the "
            "controller may not reach Pods (progress.askPods of the chart, a NetworkPolicy)",
        )


def summary(evidence: Evidence, found: Sequence[Finding]) -> str:
    """Return the first line: how the Framework is."""
    view = evidence.view
    where = f"Framework {view.namespace}/{view.name}"
    if view.finished or view.status is None or view.problem:
        return f"{where}:"
    attempt = f", attempt {view.attempts}" if view.attempts > 1 else ""
    ledger = ledger_of(view, evidence.now)
    spends = f", {ledger.state} for {since(ledger.since, evidence.now)}" if ledger and ledger.state else ""
    state = f"{where} is {view.state}, {view.ready_text or '?'} ready{attempt}{spends}"
    return f"{state}:" if found else f"{state}. Nothing holds it up.{_still_running(evidence)}"


def _still_running(evidence: Evidence) -> str:
    """Return which Tasks go on, and since when, where others have ended already; else ""."""
    tasks = list(evidence.view.tasks)
    ended = [task.name for task in tasks if task.ended]
    running = [task for task in tasks if task.state is State.RUNNING]
    if not ended or not running:
        return ""
    times = [task.status.attempt_status.run_time or task.status.attempt_status.start_time for task in running]
    age = since(min(times), evidence.now)
    verb = "has" if len(ended) == 1 else "have"
    names = listed([task.name for task in running])
    return f" {listed(ended)} {verb} ended; {names} still {'runs' if len(running) == 1 else 'run'}, since {age}."
