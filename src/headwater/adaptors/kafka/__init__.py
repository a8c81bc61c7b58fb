"""Kafka's topics as collections."""
