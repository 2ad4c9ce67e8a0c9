"""Ask a URL again and again, say who answers, and end when only role green has answered for a while."""

import collections
import sys
import time
import urllib.request

PAUSE, RECENT, PATIENCE = 0.1, 150, 900


def main(url: str) -> None:
    """Fail if a request fails after the first one was answered."""
    recent: collections.deque[str] = collections.deque(maxlen=RECENT)
    known: set[str] = set()
    requests, deadline = 0, time.monotonic() + PATIENCE
    while not (len(recent) == RECENT and all("-green-" in name for name in recent)):
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                name = answer.read().decode().strip()
        except OSError as error:
            # Before the first server is ready nobody can answer.
            if requests or time.monotonic() > deadline:
                sys.exit(f"request {requests + 1} failed: {error}")
        else:
            requests += 1
            recent.append(name)
            if name not in known:
                known.add(name)
                print(f"request {requests} is the first that {name} has answered", flush=True)
        time.sleep(PAUSE)
    print(f"{requests} requests, none failed; the last {RECENT} by {', '.join(sorted(set(recent)))}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
