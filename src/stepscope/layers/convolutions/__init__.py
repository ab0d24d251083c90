"""Convolutions and pools as layers."""
