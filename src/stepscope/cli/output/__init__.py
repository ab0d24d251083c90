"""What commands say: tables, plots, words, and where they go."""
