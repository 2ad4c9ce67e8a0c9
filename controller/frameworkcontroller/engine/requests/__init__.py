"""Effects become requests to the API server, and its answers become outcomes."""
