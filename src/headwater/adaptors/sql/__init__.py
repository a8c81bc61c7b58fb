"""Code that the adaptors of SQL databases share."""
