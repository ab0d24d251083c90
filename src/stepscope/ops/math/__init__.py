"""Numbers: elementwise functions, comparisons, products, reductions, random numbers."""
