"""The protocol of client, server and the headwater adaptor: operations, JSON, problems, ranges."""
