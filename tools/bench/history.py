"""Measure the archive: how fast Frameworks are written, and how long each question takes once they are there.

They are of 90 days, in 50 namespaces of very different sizes, with one attempt or two of two Tasks. Without a URL the
database is an SQLite in a temporary folder.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random

from bench.results import flags, quantile
from frameworkhistory.archive.changes import Changes, Row
from frameworkhistory.archive.database import Database
from frameworkhistory.archive.reader import Reader, Search
from frameworkhistory.archive.writer import Writer

NOW, DAY, BATCH = 1_800_000_000.0, 86_400.0, 500
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


def main() -> None:
    """Write, ask, and print."""
    parser = flags(__doc__)
    parser.add_argument("--frameworks", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--times", type=int, default=200, help="that each question is asked (default: %(default)s)")
    parser.add_argument("--url", default="", help="of an empty database (default: a new SQLite)")
    arguments = parser.parse_args()
    number, random = arguments.frameworks, Random(1)  # noqa: S311 -- not for secrets
    with tempfile.TemporaryDirectory() as folder:
        database = Database(arguments.url or f"sqlite:///{folder}/archive.db")
        database.open()
        writer, made, spent = Writer(database.engine), frameworks(number, random), 0.0
        while batch := list(islice(made, BATCH)):
            begin = time.perf_counter()
            writer.apply(batch)
            spent += time.perf_counter() - begin
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


if __name__ == "__main__":
    main()
