"""The heavy side. Nothing outside imports from here; `artifactctl.process.Worker` is the only door."""
