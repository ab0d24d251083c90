"""What neural networks are made of: activations, convolutions, pools, normalisation, losses."""
