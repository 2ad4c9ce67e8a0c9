"""The injector: a mutating webhook that adds the barrier to the Pods that ask for it by a label.

Pure parts: ``settings`` (annotations -> frozen settings), ``plan`` (Pod, settings -> what to add), ``patch`` (plan ->
RFC 6902), ``review`` (request bytes -> answer bytes), ``reasons`` (every outcome and its one sentence).
Parts with I/O: ``server``, ``certificates``, ``probe``, ``run``.
"""

# That of the distribution, which an image does not carry: a test compares the two.
__version__ = "0.1.0"
