"""Work on a tenant's behalf in child processes with limits on CPU time, memory and wall time."""
