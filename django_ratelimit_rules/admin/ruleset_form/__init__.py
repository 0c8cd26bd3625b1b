"""The form of a ruleset: its rules in their order, their fields, and the rules of the other tiers beside them."""
