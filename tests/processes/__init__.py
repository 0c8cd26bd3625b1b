"""A site under the servers that sites run on. Its limiters are made in those processes only, never in the tests' own."""

LIMIT = 60
