"""Topics of a headwater log: of a data directory, a Kafka cluster, or a headwater server."""
