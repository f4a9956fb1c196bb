"""What the actions do: inputs from the environment, the same commands that people type, a page that one can read."""
