"""Measure the archive: how fast Frameworks are written, and how long each question and each page then takes.

They are of 90 days, in 50 namespaces of very different sizes, with one attempt or two of two Tasks, and one of 10,000.
Without a URL the database is an SQLite in a temporary folder. Pages are those of the whole program, which asks the API
server of a local control plane whose a token is, and what they may: all, or to see five namespaces. One client asks for
one page after the other, on one connection.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path
from random import Random
from urllib.parse import urlencode

from bench.results import flags, quantile
from bench.scene import new_cluster, program
from frameworkhistory.archive.changes import Changes, Row
from frameworkhistory.archive.database import Database
from frameworkhistory.archive.reader import Reader, Search
from frameworkhistory.archive.writer import Writer
from localcluster import Cluster, Depth
from localcluster.processes.ports import free_port
from testkit.frameworks import framework, role

NOW, DAY, BATCH = time.time(), 86_400.0, 500  # the page has no statistics of what is to come
FIRST_BYTE_MS, PAGE_BYTES = 200.0, 300_000  # what is aimed at: of 99 in 100 pages, and of each
NAMESPACES = [f"team-{number:02}" for number in range(50)]
SIZES = [1 / (number + 1) for number in range(50)]
PEOPLE = [f"person-{number:03}@example.org" for number in range(500)]
KINDS = "train", "evaluate", "sweep", "nightly", "debug"


def frameworks(number: int, random: Random) -> Iterator[Changes]:
    """Yield Frameworks in the order of their creation; the last thousand still run."""
    for index in range(number):
        created = NOW - 90 * DAY * (1 - index / number)
        namespace, person = random.choices(NAMESPACES, SIZES)[0], random.choice(PEOPLE)
        runs_now, tries = index >= number - 1000, 1 + (random.random() < 0.2)
        code = 0 if random.random() < 0.85 else random.choice([1, 137, -100])
        end: Row = {"code": code, "phrase": f"Phrase{code}", "result": "Failed" if code else "Succeeded"}
        spent: Row = {"queued": 60.0, "running": 3600.0, "lost": 600.0 if code else 0.0}
        times: Row = {"started": created + 60, "ran": created + 90, **({} if runs_now else {"ended": created + 3700})}
        ending = {} if runs_now else end
        own: Row = {"completed": created + 3700, "deleted": created + 4000} if not runs_now else {}
        named = {"namespace": namespace, "name": f"{random.choice(KINDS)}-{index:07}", "person": person}
        count = {"attempts": tries, "tasks": 2, "gpus": 16, "state": "AttemptRunning" if runs_now else "Completed"}
        document = json.dumps({**named, "spec": [random.random() for _ in range(60)]}).encode()
        seen = {"created": created, "seen": created + 4000, "version": str(index), "document": document}
        made = Changes(f"uid-{index}", namespace, framework={**named, **count, **seen, **own, **ending, **spent})
        made.labels = {"team": namespace, "model": f"m{random.randrange(2000)}", "kind": named["name"].split("-")[0]}
        made.spans = [{"began": created, "attempt": 0, "state": "running", "ended": created + 3700}]
        for one in range(tries):
            tried: Row = {"attempt": one, "namespace": namespace, **times, **ending}
            made.attempts.append({**tried, **spent, "tasks": 2})
            for task in range(2):
                pod = {"node": f"node-{random.randrange(1000)}", "pod_uid": f"pod-{index}-{one}-{task}"}
                made.runs.append({**tried, **pod, "role": "worker", "index": task, "run": 0})
        yield made


def large() -> Changes:
    """Return a Framework of 10,000 Tasks, of which one in fifty has failed."""
    made = next(frameworks(2000, Random(1)))  # noqa: S311 -- not for secrets
    found = framework("team-00", "large", role("worker", 10_000))
    found["metadata"] |= {"uid": "uid-large", "resourceVersion": "1"}
    row = {"name": "large", "namespace": "team-00", "tasks": 10_000, "document": json.dumps(found).encode()}
    made.uid, made.framework = "uid-large", {**(made.framework or {}), **row}
    end = {"result": "Failed", "code": 137, "phrase": "ContainerTransientFailed", "diagnostics": "x" * 200}
    runs = [{**made.runs[0], "index": index, "pod_uid": f"pod-large-{index}"} for index in range(10_000)]
    made.runs = [one | end if one["index"] % 50 == 0 else one for one in runs]
    return made


def questions(reader: Reader, number: int, random: Random) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is asked by its name, with other values each time."""

    def search(**wanted: object) -> Callable[[], object]:
        return lambda: reader.frameworks(Search(**{"namespaces": None, **wanted}))  # type: ignore[arg-type]

    some, one, person = random.choices(NAMESPACES, SIZES)[0], random.choice(NAMESPACES), random.choice(PEOPLE)
    begin, begins = NOW - random.uniform(8, 80) * DAY, f"train-{random.randrange(max(number // 10_000, 1)):03}"
    yield "first page", search()
    yield "a page in the middle", search(before=(begin, number))
    yield "one namespace", search(namespaces=frozenset({some}))
    yield "five that may be seen", search(namespaces=frozenset(random.sample(NAMESPACES, 5)))
    yield "fifty that may be seen", search(namespaces=frozenset(NAMESPACES))
    yield "name prefix, of many", search(name=f"{random.choice(KINDS)}-")
    yield "name prefix, of 2,000", search(name=begins)
    yield "name prefix, in a namespace", search(name=begins, namespaces=frozenset({some}))
    yield "label, of 500", search(label=f"model=m{random.randrange(2000)}")
    yield "label, of many", search(label=f"kind={random.choice(KINDS)}")
    yield "label, in a namespace", search(label=f"model=m{random.randrange(2000)}", namespaces=frozenset({some}))
    yield "label of any value", search(label="team")
    yield "person", search(person=person)
    yield "person, in a namespace, failed", search(person=person, namespaces=frozenset({some}), result="Failed")
    yield "running", search(state="AttemptRunning")
    yield "running, in one that may be seen", search(state="AttemptRunning", namespaces=frozenset({one}))
    yield "failed", search(result="Failed")
    yield "failed, in a namespace", search(result="Failed", namespaces=frozenset({some}))
    yield "state and result that exclude each other", search(state="AttemptRunning", result="Failed")
    yield "a week", search(since=begin, until=begin + 7 * DAY)
    id_ = random.randrange(1, number)
    yield "a Framework: runs, attempts, spans", lambda: (reader.runs(id_), reader.attempts(id_), reader.spans(id_))
    yield "statistics of a week", lambda: reader.statistics(None, begin, begin + 7 * DAY)
    yield "namespaces", reader.namespaces


def pages(random: Random) -> Iterator[tuple[str, str]]:
    """Yield the pages that are asked for by their names, with other values each time."""
    begin, one = NOW - random.uniform(8, 80) * DAY, "/frameworks/team-00/large"
    week = {"since": str(int(begin)), "until": str(int(begin + 7 * DAY))}
    queries: list[dict[str, str]] = [
        {},
        {"before": f"[{begin},0]"},
        {"namespace": "team-01"},
        {"name": "train-00"},
        week,
    ]
    queries += [{"label": f"model=m{random.randrange(2000)}"}, {"person": random.choice(PEOPLE), "result": "Failed"}]
    for query in queries:
        yield f"list by {' and '.join(query)}" if query else "list", f"/?{urlencode(query)}"
    yield "a Framework of 10,000 Tasks", one
    yield "its Tasks", f"{one}/tasks?{urlencode({'after': json.dumps([0, 'worker', 5000, 0])})}"
    yield "page of statistics of a week", f"/statistics?{urlencode(week)}"


def person_of_five(cluster: Cluster) -> str:
    """Return the token of a person who may see the Frameworks of five namespaces."""
    for name in NAMESPACES[:5]:
        cluster.kubectl("create", "namespace", name)
        cluster.kubectl("create", "role", "sees", "--verb=get,list", "--resource=frameworks", f"--namespace={name}")
        who = "--serviceaccount=team-00:person"
        cluster.kubectl("create", "rolebinding", "sees", "--role=sees", who, f"--namespace={name}")
    cluster.kubectl("create", "serviceaccount", "person", "--namespace=team-00")
    return cluster.token("team-00", "person")


def show_pages(folder: Path, cluster: Cluster, url: str, times: int, random: Random) -> None:
    """Ask the whole program for pages, and print the time to their first byte and how large they are."""
    port, internal, taken = free_port(), free_port(), dict[str, list[tuple[float, int]]]()
    tokens = {"all": cluster.admin_token, "five namespaces": person_of_five(cluster)}
    # It follows another namespace, or else it would note that all are gone.
    given = ["--namespace=bench", "--retention-days=0", f"--database={url}", f"--logs=file://{folder}/logs"]
    given += [f"--kubeconfig={cluster.kubeconfig}", f"--port={port}", f"--internal-port={internal}"]
    with program("frameworkhistory", folder, internal, *given), closing(HTTPConnection("127.0.0.1", port)) as client:
        for who, token in times * list(tokens.items()):
            for name, path in pages(random):
                begin = time.perf_counter()
                client.request("GET", path, headers={"Authorization": f"Bearer {token}"})
                answer = client.getresponse()
                first, page = 1000 * (time.perf_counter() - begin), answer.read()
                assert answer.status == 200, f"{path}: {page.decode()}"
                taken.setdefault(f"{name}, {who}", []).append((first, len(page)))
    for name, rows in taken.items():
        firsts, most = [first for first, _ in rows], max(size for _, size in rows)
        late, told = quantile(firsts, 0.99), f"{name:55} p50 {quantile(firsts, 0.5):8.1f} ms"
        missed = "" if late < FIRST_BYTE_MS and most < PAGE_BYTES else "   misses the target"
        print(f"{told}   p99 {late:8.1f} ms   {most / 1000:6.1f} kB{missed}")


def main() -> None:
    """Write, ask, and print."""
    parser = flags(__doc__)
    parser.add_argument("--frameworks", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--times", type=int, default=200, help="that each question is asked (default: %(default)s)")
    parser.add_argument("--url", default="", help="of an empty database (default: a new SQLite)")
    arguments = parser.parse_args()
    number, random = arguments.frameworks, Random(1)  # noqa: S311 -- not for secrets
    with tempfile.TemporaryDirectory() as folder:
        url = arguments.url or f"sqlite:///{folder}/archive.db"
        database = Database(url)
        database.open()
        writer, made, spent = Writer(database.engine), frameworks(number, random), 0.0
        while batch := list(islice(made, BATCH)):
            begin = time.perf_counter()
            writer.apply(batch)
            spent += time.perf_counter() - begin
        writer.apply([large()])
        print(f"{number:,} Frameworks written, {number / spent:,.0f} a second", flush=True)
        taken: dict[str, list[float]] = {}
        for _ in range(arguments.times):
            for name, ask in questions(Reader(database.engine), number, random):
                begin = time.perf_counter()
                ask()
                taken.setdefault(name, []).append(1000 * (time.perf_counter() - begin))
        for name, times in taken.items():
            print(f"{name:45} p50 {quantile(times, 0.5):8.1f} ms   p99 {quantile(times, 0.99):8.1f} ms")
        database.close()
        with new_cluster("bench-history", Depth.CONTROL_PLANE, "bench") as (cluster, _):
            show_pages(Path(folder), cluster, url, arguments.times, random)


if __name__ == "__main__":
    main()
