"""Speed, side by side with TensorFlow in one process, as ratios."""
