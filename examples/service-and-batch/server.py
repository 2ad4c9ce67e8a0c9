"""Serve `/N`: how many primes are below N."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def primes_below(limit: int) -> int:
    """Count by the sieve of Eratosthenes."""
    sieve = bytearray([1]) * limit
    sieve[:2] = b"\0\0"
    for number in range(2, int(limit**0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, limit, number)))
    return sum(sieve)


class Handler(BaseHTTPRequestHandler):
    """Answers GET."""

    def do_GET(self) -> None:
        """Answer with a number as text."""
        body = str(primes_below(int(self.path.strip("/")))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, text: str, *values: object) -> None:
        """Log to stdout: who asked for what."""
        print(f"{self.client_address[0]} {text % values}", flush=True)


if __name__ == "__main__":
    ThreadingHTTPServer(("", 8080), Handler).serve_forever()
