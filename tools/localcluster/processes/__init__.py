"""Processes of this machine: started, watched, found again and ended; their ports and logs."""
