"""What lasts from run to run: variables, the ops that train them, and queues."""
