"""The injector: a mutating webhook that adds the barrier to the Pods that ask for it by a label.

Pure parts: `settings` (annotations -> frozen settings), `plan` (Pod, settings -> what to add) with `barrier`, `folder`
and `resources`, `patch` (plan -> RFC 6902), `review` (request bytes -> answer bytes), `reasons` (every outcome and its
one sentence), `pki` (which certificates are due), `readiness` (whether the replica is ready).
Parts with I/O: `server`, `certificates`, `certificatefiles`, `probe`, `selfcall`, `run`.
"""

# The version of the distribution, whose metadata an image does not carry; a test compares the two.
__version__ = "0.1.0"
