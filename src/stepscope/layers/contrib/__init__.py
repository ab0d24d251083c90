"""What `tf.contrib.layers` had."""
