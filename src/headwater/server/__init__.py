"""The server: the log over HTTP, and later its parts."""
