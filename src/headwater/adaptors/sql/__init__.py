"""What the systems that speak SQL share."""
