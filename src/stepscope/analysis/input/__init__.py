"""Input pipelines: what their stages did, which one limits, what would help."""
