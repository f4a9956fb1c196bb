"""Other people's judges of what we write: CycloneDX's strict validator, and the messages of in-toto."""

from __future__ import annotations

import json
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf.json_format import MessageToDict, ParseDict
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement


def demand_valid_bill(text: str) -> dict[str, Any]:
    """By the schema; and every reference in it leads somewhere, by a name that nothing else has."""
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    data: dict[str, Any] = json.loads(text)
    model = data["metadata"]["component"]
    refs = [component["bom-ref"] for component in [model, *data["components"]]]
    assert len(set(refs)) == len(refs)
    used = [entry["ref"] for entry in model["modelCard"]["modelParameters"]["datasets"]]
    for entry in data["dependencies"]:
        used += [entry["ref"], *entry["dependsOn"]]
    assert set(used) <= set(refs)
    return data


def demand_valid_statement(text: str) -> dict[str, Any]:
    """A key that in-toto does not know is an error; what it understood is what we wrote."""
    data: dict[str, Any] = json.loads(text)
    statement = ParseDict(data, statement_pb2.Statement())
    Statement.copy_from_pb(statement).validate()
    assert data["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    predicate = ParseDict(data["predicate"], test_result_pb2.TestResult())
    understood = MessageToDict(predicate)
    assert understood == {key: value for key, value in data["predicate"].items() if value != []}
    assert predicate.result in ("PASSED", "WARNED", "FAILED")
    assert predicate.configuration
    for descriptor in predicate.configuration:
        ResourceDescriptor.copy_from_pb(descriptor).validate()
        assert len(descriptor.digest["sha256"]) == 64
    return data
