"""Two sets of runs: what is slower or larger, by tests that assume no distribution."""
