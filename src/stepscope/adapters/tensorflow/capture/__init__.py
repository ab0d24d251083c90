"""What one run did: the profiler, its events, and the graphs they belong to."""
