"""The log on Kafka. `log.py` is the engine; the rest are its parts."""
