"""Requests to the API server: connections, credentials and their rotation, and streams of lines.

`client` has the verbs; `transport` makes one exchange and says which answers pause the client, `flow_control` keeps the
pause; `session` has the connections, `credentials`, `kubeconfig` and `rotation` the token, `lines` cuts a watch.
"""
