"""Serve a saved model by HTTP, with the paths and the JSON of TensorFlow Serving.

`GET /v1/models/NAME` says that it is available; `POST /v1/models/NAME:predict` takes `{"instances": [...]}`.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import tensorflow as tf

PORT = 8501
AVAILABLE = {"model_version_status": [{"version": "1", "state": "AVAILABLE"}]}


class Handler(BaseHTTPRequestHandler):
    """Answers for one model."""

    name: str
    predict: Any

    def do_GET(self) -> None:
        """Answer the readiness probe."""
        self._answer(*((200, AVAILABLE) if self.path == f"/v1/models/{self.name}" else (404, {"error": self.path})))

    def do_POST(self) -> None:
        """Answer with predictions."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != f"/v1/models/{self.name}:predict":
            self._answer(404, {"error": self.path})
            return
        try:
            instances = tf.constant(json.loads(body)["instances"], tf.float32)
            (predictions,) = self.predict(instances).values()
        except (ValueError, KeyError, TypeError, tf.errors.InvalidArgumentError) as error:
            self._answer(400, {"error": str(error)})
        else:
            self._answer(200, {"predictions": predictions.numpy().tolist()})

    def _answer(self, code: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Served-By", os.environ["FC_POD_NAME"])
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, text: str, *values: object) -> None:
        """Log what clients ask for, without the probes."""
        if self.command != "GET":
            print(f"{self.client_address[0]} {text % values}", flush=True)


def main(name: str, folder: str) -> None:
    """Load the model, and listen when it is there: until then the Pod is not ready."""
    model = tf.saved_model.load(folder)
    Handler.name, Handler.predict = name, staticmethod(model.signatures["serving_default"])
    print(f"model {name} of {folder} is available", flush=True)
    ThreadingHTTPServer(("", PORT), Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
