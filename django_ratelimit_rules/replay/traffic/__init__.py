"""Recorded traffic: files of several formats go in, batches of calls in the order of their times come out."""
