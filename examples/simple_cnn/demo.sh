#!/bin/sh
# Build the example from a clean slate, look at the folder, and let it prove itself.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
artifactctl build --output "$work/artifacts"
echo
echo "$ ls artifacts/simple_cnn/artifact_v1"
ls -1 "$work/artifacts/simple_cnn/artifact_v1"
echo
echo "$ python artifacts/simple_cnn/artifact_v1/validate.py"
python "$work/artifacts/simple_cnn/artifact_v1/validate.py"
