"""A site under the servers that sites run on. Its limiters are made in their processes only, not in the tests' own."""

LIMIT = 60
