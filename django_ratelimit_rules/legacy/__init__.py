"""Moving over from another limiter: both are asked, one decides, and they are compared.

- ``views`` wraps a view; ``verdicts`` reads the other limiter's answer.
- ``divergence`` counts where the two disagree; ``drafts`` writes the rates of the old limiter as rules.
"""
