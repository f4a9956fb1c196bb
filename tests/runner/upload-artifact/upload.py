"""As actions/upload-artifact: a folder with all it holds, or the files of a pattern by their names; no dot-files."""

import glob
import json
import os
import shutil
import sys
from pathlib import Path

target = Path(os.environ["ACTIONS_STORE"]) / os.environ["NAME"]
found = [Path(name) for name in glob.glob(os.environ["PLACE"])]  # noqa: PTH207 - an absolute pattern
if target.exists() and os.environ["OVERWRITE"] != "true":
    sys.exit(f"an artifact {target.name} exists already")
if not found:
    sys.exit(f"::error::no files were found at {os.environ['PLACE']}" if os.environ["NONE"] == "error" else 0)
shutil.rmtree(target, ignore_errors=True)
for path in found:
    if path.is_dir():
        shutil.copytree(path, target, ignore=shutil.ignore_patterns(".*"), dirs_exist_ok=True)
    else:
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / path.name)
if target.name == os.environ.get("ACTIONS_STALE"):  # as if a cell of an older build were left in the store
    for path in target.glob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"artifact_sha256": "0" * 64}))
