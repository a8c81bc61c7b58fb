"""What client, server and adaptors say to each other: operations, JSON, problems, ranges."""
