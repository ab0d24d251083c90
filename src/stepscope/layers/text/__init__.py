"""What programs that read text are built of: embeddings, and sequences to sequences."""
