"""What memory a run held: the allocator's events, outputs of ops, what the program keeps."""
