"""Whether the gang makes progress: what its processes say, who has stopped, and since when.

A child process of the sidecar (`monitor`, started by `child`) collects what the processes of this Pod say (`report`)
and what follows from it for the Pod (`pulse`), and answers who asks. One sidecar of the gang is the `lead`: it asks the
others, and `verdict` decides whether the gang hangs. Source: docs/reference/progress.md.
"""
