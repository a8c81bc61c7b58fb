"""RabbitMQ's queues and exchanges."""
