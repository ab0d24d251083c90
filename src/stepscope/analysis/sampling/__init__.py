"""Recordings with a budget: what all steps did, from the few runs that were kept and summaries."""
