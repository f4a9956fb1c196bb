"""ONNX Runtime's model package of an artifact: which files it has and what stands in them. Pure.

    manifest.json
    models/<model>/component.json
    models/<model>/<provider>/model_opt.onnx [model_opt.onnx.data]

ONNX Runtime refuses any field that it does not know; what is ours stands under additional_metadata. No device is named:
the execution provider chooses the variant, and providers that do not tell their device would be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artifactctl import jsontext
from artifactctl.folder import MODEL
from artifactctl.versions import folder_name, model_name_from

SUFFIX = ".ortpackage"
SCHEMA_VERSION = "1.0"
_LEVELS = {"all": "enable_all", "extended": "enable_extended", "basic": "enable_basic", "disabled": "disable_all"}


def component(metadata: Mapping[str, Any]) -> str:
    """A key of the manifest and a folder: the model's name, which the rules for names of models keep valid as both."""
    return model_name_from(metadata["model_name"])


def variant(metadata: Mapping[str, Any]) -> str:
    return str(metadata["session"]["provider"])


def model_folder(metadata: Mapping[str, Any]) -> str:
    return f"{_component_folder(metadata)}/{variant(metadata)}"


def texts(metadata: Mapping[str, Any], artifact_sha256: str) -> dict[str, str]:
    """The package but for the model's own files; `artifact_sha256` is of the artifact's SHA256SUMS."""
    return {
        "manifest.json": jsontext.render(_manifest(metadata, artifact_sha256)),
        f"{_component_folder(metadata)}/component.json": jsontext.render(_component(metadata)),
    }


def _component_folder(metadata: Mapping[str, Any]) -> str:
    return f"models/{component(metadata)}"  # beside shared_assets/, whatever the model is called


def _manifest(metadata: Mapping[str, Any], artifact_sha256: str) -> dict[str, Any]:
    version = folder_name(metadata["version"])
    return {
        "schema_version": SCHEMA_VERSION,
        "package_name": metadata["model_name"],
        "package_version": version,
        "description": f"{metadata['optimization']}; {metadata['equivalence']['statement']}",
        "layout": "portable",
        "components": {component(metadata): _component_folder(metadata)},
        "additional_metadata": {
            "artifactctl": {
                "version": metadata["environment"]["artifactctl"],
                "artifact": version,
                "artifact_digest": f"sha256:{artifact_sha256}",
                "equivalence": metadata["equivalence"]["statement"],
            }
        },
    }


def _component(metadata: Mapping[str, Any]) -> dict[str, Any]:
    session = metadata["session"]
    runtime: dict[str, Any] = {"model_file": MODEL, "session_options": _session_options(session)}
    if session["options"]:
        runtime["provider_options"] = dict(sorted(session["options"].items()))
    body = {
        "variant_directory": variant(metadata),
        "ep": session["execution_provider"],
        "executor_info": {"ort": runtime},
        "additional_metadata": {
            "artifactctl": {
                "precision": metadata["precision"],
                "opset": metadata["opset"],
                "recipe": metadata["recipe"]["name"],
                "runtime": metadata["runtime"],
            }
        },
    }
    return {"component_name": component(metadata), "variants": {variant(metadata): body}}


def _session_options(session: Mapping[str, Any]) -> dict[str, str]:
    """Those that the proof and the measurement used, in ONNX Runtime's words."""
    return {
        "session.intra_op_num_threads": str(session["intra_op_threads"]),
        "session.inter_op_num_threads": str(session["inter_op_threads"]),
        "session.intra_op.allow_spinning": "1" if session["allow_spinning"] else "0",
        "session.force_spinning_stop": "1",
        "session.graph_optimization_level": _LEVELS[session["graph_level"]],
    }
