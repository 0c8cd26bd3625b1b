"""A site under real web servers. Its limiters are created only in their processes, not in the process of the tests."""

LIMIT = 60
