"""Recording a whole script that knows nothing of it."""
