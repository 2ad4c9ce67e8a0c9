"""Ask the model by its Service until every replica has answered, and fail unless all predictions are right."""

import json
import sys
import urllib.request

QUESTIONS = [-1.0, 0.0, 0.5, 1.0]
MOST = 200


def ask(url: str) -> tuple[str, list[float]]:
    """Return who answered, and the predictions."""
    body = json.dumps({"instances": QUESTIONS}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers["Served-By"], json.loads(answer.read())["predictions"]


def main(url: str, replicas: str) -> None:
    """Ask again and again: the Service chooses a replica for each connection."""
    seen: dict[str, list[float]] = {}
    for number in range(1, MOST + 1):
        server, predictions = ask(url)
        wrong = [(x, y) for x, y in zip(QUESTIONS, predictions, strict=True) if abs(y - (3 * x - 1)) > 0.2]
        assert not wrong, (server, wrong)
        if server not in seen:
            print(f"answer {number} is the first of {server}: {[round(y, 2) for y in predictions]}", flush=True)
        seen[server] = predictions
        if len(seen) == int(replicas):
            break
    assert len(seen) == int(replicas), sorted(seen)
    assert len({tuple(each) for each in seen.values()}) == 1, seen
    print(f"{len(seen)} replicas agree on {len(QUESTIONS)} predictions", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
