"""Alerts and the dashboard for Prometheus and Grafana, as data; `make manifests` writes them to `deploy/monitoring`."""
