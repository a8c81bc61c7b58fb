"""MongoDB, and servers that speak its protocol."""
