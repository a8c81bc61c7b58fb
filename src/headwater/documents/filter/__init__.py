"""The filter language: tokens, parser, tree, evaluation, and which filter implies which."""
