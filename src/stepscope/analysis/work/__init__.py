"""How much there was to calculate and to move, beside what the machine reaches."""
