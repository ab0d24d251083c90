"""Where the time went: by op, layer, line or thread, over any number of runs."""
