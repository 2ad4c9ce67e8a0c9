"""What people see of the process: `metrics`, Events (`event_recorder` folds and limits them), and the log.

`history` takes snapshots; `log` writes all lines and says how much of them may wait, by Framework and namespace.
"""
