"""The generated code against KEDA's contract, written down a second time by hand."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor import FieldDescriptor

from scaler.wire import externalscaler_pb2

TEXT, FLAG = FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BOOL
WHOLE, FRACTION = FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_DOUBLE
MESSAGE = FieldDescriptor.TYPE_MESSAGE

FIELDS = {
    "ScaledObjectRef": [
        (1, "name", TEXT, False),
        (2, "namespace", TEXT, False),
        (3, "scalerMetadata", MESSAGE, True),
    ],
    "IsActiveResponse": [(1, "result", FLAG, False)],
    "GetMetricSpecResponse": [(1, "metricSpecs", MESSAGE, True)],
    "MetricSpec": [
        (1, "metricName", TEXT, False),
        (2, "targetSize", WHOLE, False),
        (3, "targetSizeFloat", FRACTION, False),
    ],
    "GetMetricsRequest": [
        (1, "scaledObjectRef", MESSAGE, False),
        (2, "metricName", TEXT, False),
    ],
    "GetMetricsResponse": [(1, "metricValues", MESSAGE, True)],
    "MetricValue": [
        (1, "metricName", TEXT, False),
        (2, "metricValue", WHOLE, False),
        (3, "metricValueFloat", FRACTION, False),
    ],
}

METHODS = {
    "IsActive": ("ScaledObjectRef", "IsActiveResponse", False),
    "StreamIsActive": ("ScaledObjectRef", "IsActiveResponse", True),
    "GetMetricSpec": ("ScaledObjectRef", "GetMetricSpecResponse", False),
    "GetMetrics": ("GetMetricsRequest", "GetMetricsResponse", False),
    "StreamMetricSpec": ("ScaledObjectRef", "GetMetricSpecResponse", True),
}


@pytest.mark.parametrize("message", FIELDS)
def test_fields_have_kedas_numbers_and_types(message: str) -> None:
    """A field is found by its number and type: another one reads as empty on KEDA's side."""
    fields = externalscaler_pb2.DESCRIPTOR.message_types_by_name[message].fields
    found = [(f.number, f.name, f.type, f.is_repeated) for f in fields]
    assert found == FIELDS[message]


def test_there_is_no_other_message() -> None:
    """The contract holds the messages above and none of our own."""
    assert set(externalscaler_pb2.DESCRIPTOR.message_types_by_name) == set(FIELDS)


def test_the_service_has_kedas_five_methods() -> None:
    """A method is found by its full name, and KEDA expects a stream exactly where it opens one."""
    service = externalscaler_pb2.DESCRIPTOR.services_by_name["ExternalScaler"]
    assert service.full_name == "externalscaler.ExternalScaler"
    found = {
        m.name: (m.input_type.name, m.output_type.name, m.server_streaming) for m in service.methods
    }
    assert found == METHODS
    assert not any(m.client_streaming for m in service.methods)


def test_metadata_is_a_map_of_strings() -> None:
    """The trigger's metadata survives the wire as KEDA wrote it."""
    sent = externalscaler_pb2.ScaledObjectRef(scalerMetadata={"waitingHigh": "5"})
    read = externalscaler_pb2.ScaledObjectRef.FromString(sent.SerializeToString())
    assert dict(read.scalerMetadata) == {"waitingHigh": "5"}


def test_bytes_are_kedas() -> None:
    """A GetMetrics answer has the bytes that any other implementation of the contract gives."""
    answer = externalscaler_pb2.GetMetricsResponse(
        metricValues=[externalscaler_pb2.MetricValue(metricName="n", metricValue=3)]
    )
    assert answer.SerializeToString() == b"\x0a\x05\x0a\x01n\x10\x03"
