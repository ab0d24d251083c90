"""Pictures: their files, sizes, places and colours."""
