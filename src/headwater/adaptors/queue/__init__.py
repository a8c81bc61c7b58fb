"""Work queues of headwater: rows that a pipeline puts, and rows that it claims."""
