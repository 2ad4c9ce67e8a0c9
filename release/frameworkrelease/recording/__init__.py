"""`make recording`: `frameworkctl` on a real cluster, recorded from a terminal into an animated picture for the README.

`__main__` provides a cluster, `scene` says what is typed, `terminal` types it into a shell in tmux and captures the
screen, `screen` reads what was captured, `frames` leaves out what would bore, and `picture` draws the SVG.
"""
