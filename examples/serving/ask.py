"""Ask the model by its Service until every replica has answered, and fail unless all predictions are right."""

import json
import sys
import time
import urllib.error
import urllib.request

QUESTIONS = [-1.0, 0.0, 0.5, 1.0]
PAUSE, PATIENCE = 0.1, 600


def ask(url: str) -> tuple[str, list[float]]:
    """Return who answered, and the predictions."""
    body = json.dumps({"instances": QUESTIONS}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers["Served-By"], json.loads(answer.read())["predictions"]


def main(url: str, replicas: str) -> None:
    """Ask again and again: the Service chooses a replica for each connection, and knows a ready one a moment later."""
    seen: dict[str, list[float]] = {}
    deadline = time.monotonic() + PATIENCE
    while len(seen) < int(replicas):
        assert time.monotonic() < deadline, f"only {sorted(seen)} answered in {PATIENCE} s"
        try:
            server, predictions = ask(url)
        except urllib.error.HTTPError:
            raise
        except urllib.error.URLError as error:
            print(f"not yet: {error.reason}", flush=True)
        else:
            wrong = [(x, y) for x, y in zip(QUESTIONS, predictions, strict=True) if abs(y - (3 * x - 1)) > 0.2]
            assert not wrong, (server, wrong)
            if server not in seen:
                print(f"{server} answers for the first time: {[round(y, 2) for y in predictions]}", flush=True)
            seen[server] = predictions
        time.sleep(PAUSE)
    assert len({tuple(each) for each in seen.values()}) == 1, seen
    print(f"{len(seen)} replicas agree on {len(QUESTIONS)} predictions", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
