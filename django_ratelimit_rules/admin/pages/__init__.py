"""The pages that Django's admin does not have, one module each; ``base`` is what they share."""
