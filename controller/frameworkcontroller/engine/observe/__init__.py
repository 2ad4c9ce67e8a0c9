"""What people see of the process: metrics, logs, Events and history."""
