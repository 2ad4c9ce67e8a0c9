"""The controller beside a bare loop that does the same to Pods, on simulated nodes."""
