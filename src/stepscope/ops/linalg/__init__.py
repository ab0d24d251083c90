"""Linear algebra on matrices and batches of them: factors, inverses, equations, norms."""
