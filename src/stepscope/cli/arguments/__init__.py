"""What a command is given: the command line itself, the runs in a path, those of a cluster."""
