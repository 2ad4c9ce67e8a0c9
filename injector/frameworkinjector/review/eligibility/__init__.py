"""Which Pods and which of their containers get a barrier: by age, by platform, and by who added the container."""
