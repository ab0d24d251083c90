"""What a call on TensorFlow is wrapped in, by what runs it: functions, sessions, clusters."""
