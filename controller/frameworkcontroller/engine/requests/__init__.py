"""Effects become requests to the API server, and its answers become outcomes: `performer`, the last who knows the code.

`manifests`, `pod_bodies` and `status_encoding` make the bodies; `discovery` asks whether Frameworks are served.
"""
