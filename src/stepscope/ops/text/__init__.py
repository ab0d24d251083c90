"""Strings: hashes of them, and ops that take them apart and change them."""
