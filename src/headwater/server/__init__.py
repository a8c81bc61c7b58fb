"""The server: the operations of all parts over HTTP."""
