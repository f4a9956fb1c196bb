"""artifactctl turns a machine-learning model into a release that can be trusted."""

__version__ = "0.1.0"
