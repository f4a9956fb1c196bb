"""As actions/download-artifact: one by its name, into the folder; those of a pattern, each into a folder of its own."""

import os
import shutil
import sys
from pathlib import Path

store, place = Path(os.environ["ACTIONS_STORE"]), Path(os.environ["PLACE"])
if name := os.environ["NAME"]:
    if not (store / name).is_dir():
        sys.exit(f"::error::Unable to download artifact(s): Artifact not found for name: {name}")
    shutil.copytree(store / name, place, dirs_exist_ok=True)
else:
    place.mkdir(parents=True, exist_ok=True)
    for found in store.glob(os.environ["PATTERN"]):
        shutil.copytree(found, place / found.name, dirs_exist_ok=True)
