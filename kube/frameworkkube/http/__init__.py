"""Requests to the API server: connections, credentials and their rotation, and streams of lines.

`client` has the verbs; `transport` makes one exchange and says which answers pause the client: those with Retry-After,
whose pause `flow_control` keeps; after any other failure callers wait by themselves, most by `frameworkkube.backoff`.
`session` has the connections; `credentials` finds server and user, by `kubeconfig` where plain files do; `rotation`
reads token and certificates again, and runs a plugin; `lines` cuts a watch, `pages` a list.
"""
