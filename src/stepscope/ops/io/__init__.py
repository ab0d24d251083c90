"""What reaches a disk: checkpoints, summaries, files."""
