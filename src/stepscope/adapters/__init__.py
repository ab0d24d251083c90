"""Engines that are not ours, one folder each."""
