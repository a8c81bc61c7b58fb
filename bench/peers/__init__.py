"""Programs that ours are compared with. They live in an environment of their own: nothing of theirs comes into ours."""
