"""Requests to the API server: connections, credentials and their rotation, flow control, and streams of lines."""
