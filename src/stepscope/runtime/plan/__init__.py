"""From a graph, and what is fed and fetched, to a plan: which nodes, where, with which memory."""
