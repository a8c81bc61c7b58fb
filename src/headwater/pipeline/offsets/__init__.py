"""What is known of a pipeline: its offset log, what each sink has taken, and what may be let go of."""
