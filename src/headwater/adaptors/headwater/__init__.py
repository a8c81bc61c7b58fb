"""Topics of a headwater log: this one's, another directory's, a Kafka cluster's, or another server's."""
