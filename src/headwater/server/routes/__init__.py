"""What the server offers, one file for each part."""
