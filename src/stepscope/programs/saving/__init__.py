"""What a program keeps of a graph and its variables: savers, checkpoints, meta graphs."""
