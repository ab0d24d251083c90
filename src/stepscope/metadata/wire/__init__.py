"""To and from bytes that TensorFlow reads: messages, columns straight from bytes, records."""
