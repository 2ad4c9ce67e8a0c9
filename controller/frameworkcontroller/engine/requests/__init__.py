"""Effects become requests to the API server, and its answers become outcomes: `performer`.

It is the last who knows the HTTP status code: the core hears whether it failed, for good or not, and what it said.
`manifests` (ConfigMap, Role, RoleBinding), `pod_bodies` and `status_encoding` make the bodies; `discovery` asks whether
Frameworks are served.
"""
