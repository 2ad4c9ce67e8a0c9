"""The logs of a Framework: of all its Tasks, through retries, rescale, and connections that break.

`lines` cuts bytes into lines with their times, `container` reads one container, `collector` all of them, `selection`
says whose logs are wanted.
"""
