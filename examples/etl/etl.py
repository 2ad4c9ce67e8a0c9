"""Extract, transform and load measurements of stations: `etl.py extract|transform|load`, each for its Task index."""

import csv
import os
import random
import sqlite3
import sys
from pathlib import Path

DATA = Path("/data")
STATIONS, ROWS = ("north", "east", "south", "west", "centre", "coast"), 3000


def extract(part: int) -> None:
    """Write the raw measurements of this part, in Fahrenheit, some of them unreadable."""
    source = random.Random(part)
    with (DATA / f"raw-{part}.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        for _ in range(ROWS):
            value = f"{source.gauss(60, 15):.1f}" if source.random() > 0.01 else "?"
            rows.writerow([source.choice(STATIONS), value])
    print(f"extracted {ROWS} rows", flush=True)


def transform(part: int) -> None:
    """Drop what is unreadable, and convert to Celsius."""
    with (DATA / f"raw-{part}.csv").open() as file:
        good = [(station, (float(value) - 32) / 1.8) for station, value in csv.reader(file) if value != "?"]
    with (DATA / f"clean-{part}.csv").open("w", newline="") as file:
        csv.writer(file).writerows(good)
    print(f"dropped {ROWS - len(good)} rows", flush=True)


def load(part: int) -> None:
    """Load the stations that belong to this Task, from the clean rows of all parts, into a database."""
    parts = len(os.environ["FB_PART_IPS"].split(","))
    mine = STATIONS[part::parts]
    database = sqlite3.connect(DATA / f"stations-{part}.db")
    database.executescript("DROP TABLE IF EXISTS measured; CREATE TABLE measured (station TEXT, celsius REAL)")
    for other in range(parts):
        with (DATA / f"clean-{other}.csv").open() as file:
            database.executemany(
                "INSERT INTO measured VALUES (?, ?)", (row for row in csv.reader(file) if row[0] in mine)
            )
    database.commit()
    query = "SELECT station, count(*), avg(celsius) FROM measured GROUP BY station ORDER BY station"
    found = database.execute(query).fetchall()
    for station, count, mean in found:
        print(f"{station}: {count} rows of {parts} parts, {mean:.1f} degrees on average", flush=True)
    assert [station for station, _, _ in found] == sorted(mine), found
    # A sixth of the rows of all parts, not of one.
    assert all(count > ROWS / 3 and abs(mean - 15.6) < 2 for _, count, mean in found), found


if __name__ == "__main__":
    {"extract": extract, "transform": transform, "load": load}[sys.argv[1]](int(os.environ["FC_TASK_INDEX"]))
