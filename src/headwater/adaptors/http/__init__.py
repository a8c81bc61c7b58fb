"""Webhooks: every message sent to an address."""
