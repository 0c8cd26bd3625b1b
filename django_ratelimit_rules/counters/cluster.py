"""The old import path of the connection factory, which the settings of existing sites name."""

import warnings

from .transport.cluster import ClusterConnectionFactory

__all__ = ["ClusterConnectionFactory"]

warnings.warn(
    f"{__name__} is deprecated and will be removed in 1.2."
    f" Import ClusterConnectionFactory from {ClusterConnectionFactory.__module__} instead.",
    DeprecationWarning,
    stacklevel=2,
)
