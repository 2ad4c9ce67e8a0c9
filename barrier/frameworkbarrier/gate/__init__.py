"""Whether this Pod may go on: the `gang`, the `gate`, and how the barrier waits for it. No network and no files.

`wait` says when and how often it is told what is waited for; `sidecar` goes on after that, and `epoch` knows restarts.
"""
