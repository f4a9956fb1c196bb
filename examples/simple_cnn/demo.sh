#!/bin/sh
# Build the example from a clean slate, look at the folder, and let it prove itself.
set -eu
cd "$(dirname "$0")"
rm -rf artifacts
artifactctl build
echo
echo "$ ls artifacts/simple_cnn/artifact_v1"
ls -1 artifacts/simple_cnn/artifact_v1
echo
echo "$ python artifacts/simple_cnn/artifact_v1/validate.py"
python artifacts/simple_cnn/artifact_v1/validate.py
