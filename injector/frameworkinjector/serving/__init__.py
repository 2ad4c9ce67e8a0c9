"""The server of the webhook: its process, its bounds, its log and metrics, and what it asks the API server."""
