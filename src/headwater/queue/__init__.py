"""Work queues: rows with a key, a priority and a date, which workers claim for a while, and which are gone when they are done."""
