"""Requests, responses and errors, as models see them."""

import contextvars
import logging
import unittest.mock
from typing import Any

import numpy as np
import pytest

from naiad.backends.python.api import context, triton_python_backend_utils as pb_utils
from naiad.backends.python.api.request import receive, traced_of
from naiad.backends.python.api.triton_python_backend_utils import UTILS
from naiad.core import datatypes
from naiad.core.inference import RecordsInference
from tests.server.backends.configs import inference, tensor


class Nowhere:
    """An `ResponseChannel` that leads nowhere."""

    decoupled = False
    begun_ns = 0
    has_senders = False
    has_rescheduled = False

    def __init__(self, *outputs: str) -> None:
        self.all_outputs = frozenset(outputs)

    def send(
        self,
        call: Any,
        response: pb_utils.InferenceResponse | None,
        *,
        final: bool,
        begun_ns: int,
    ) -> None: ...

    def pace(self, call: Any) -> None: ...

    def lost(self, call: Any, begun_ns: int) -> None: ...


T = pb_utils.Tensor("T", np.zeros(1))

NOBODYS = contextvars.Context()
"""Where no model's code runs, whatever another test has left in this thread."""


def test_a_request_shows_what_the_client_sent() -> None:
    call = inference(
        tensor("A", [1, 2], datatypes.FP32),
        tensor("B", [b"x"], datatypes.BYTES),
        request_id="7",
        outputs=["Y"],
        parameters={"k": 1, "on": True, "t": "é"},
        correlation_id="abc",
        flags=3,
        timeout_us=50,
    )
    request = receive([call], Nowhere("X", "Y"))[0]
    assert [each.name() for each in request.inputs()] == ["A", "B"]
    assert request.inputs() is request.inputs()
    assert request.request_id() == "7"
    assert request.correlation_id() == "abc"
    assert request.flags() == 3
    assert request.timeout() == 50
    assert request.parameters() == '{"k":1,"on":true,"t":"é"}'
    assert request.requested_output_names() == {"Y"}
    assert request.trace().get_context() is None
    assert request.preferred_memory().memory_type == pb_utils.TRITONSERVER_MEMORY_CPU
    request.set_flags(0)
    assert (request.flags(), call.request.flags) == (0, 3)


def test_the_trace_of_a_request_has_its_context_and_is_handed_on_with_a_request_of_the_model() -> (
    None
):
    call = inference(tensor("A", [1]))
    call.traced = unittest.mock.create_autospec(RecordsInference, context='{"traceparent":"00"}')
    trace = receive([call], Nowhere("X"))[0].trace()
    assert trace.get_context() == '{"traceparent":"00"}'
    made = pb_utils.InferenceRequest(
        inputs=[], requested_output_names=[], model_name="m", trace=trace
    )
    assert traced_of(made.trace()) is call.traced
    plain = pb_utils.InferenceRequest(inputs=[], requested_output_names=[], model_name="m")
    assert (traced_of(plain.trace()), plain.trace().get_context()) == (None, None)
    assert pb_utils.InferenceTrace().get_context() is None


def test_a_request_that_names_no_output_asks_for_all() -> None:
    request = receive([inference(tensor("A", [1]))], Nowhere("X", "Y"))[0]
    assert request.requested_output_names() == {"X", "Y"}


def test_a_model_can_see_that_the_client_left() -> None:
    call = inference(tensor("A", [1]))
    request = receive([call], Nowhere())[0]
    assert not request.is_cancelled()
    call.cancelled = True
    assert request.is_cancelled()


def test_tensors_are_found_by_name_and_an_absent_one_gives_null() -> None:
    request = receive([inference(tensor("A", [1]))], Nowhere())[0]
    assert pb_utils.get_input_tensor_by_name(request, "A") is request.inputs()[0]
    assert pb_utils.get_input_tensor_by_name(request, "B") is None
    response = pb_utils.InferenceResponse([T])
    assert pb_utils.get_output_tensor_by_name(response, "T") is T
    assert pb_utils.get_output_tensor_by_name(response, "U") is None


def test_a_models_own_request_can_be_looked_at() -> None:
    request = pb_utils.InferenceRequest(
        model_name="other",
        inputs=[T],
        requested_output_names=["X"],
        parameters={"k": 1},
        preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 1),
    )
    assert request.inputs() == [T]
    assert request.requested_output_names() == {"X"}
    assert request.preferred_memory().device_id == 1
    assert not request.is_cancelled()
    assert request.parameters() == '{"k": 1}'


def test_empty_parts_of_a_models_own_request_are_refused() -> None:
    with pytest.raises(pb_utils.TritonModelException, match="Requested output name for request"):
        pb_utils.InferenceRequest(inputs=[T], requested_output_names=[""], model_name="m")
    with pytest.raises(pb_utils.TritonModelException, match="Input tensor for request"):
        pb_utils.InferenceRequest(inputs=[None], requested_output_names=[], model_name="m")  # type: ignore[list-item] # what a model may do
    with pytest.raises(pb_utils.TritonModelException, match="Correlation ID must be"):
        pb_utils.InferenceRequest(
            correlation_id=1.5,  # type: ignore[arg-type] # what a model may do
            inputs=[],
            requested_output_names=[],
            model_name="m",
        )


def test_a_models_own_request_takes_text_as_bytes_as_well() -> None:
    name = np.array([b"other"], np.object_)[0]
    request = pb_utils.InferenceRequest(
        request_id=b"7", model_name=name, inputs=[], requested_output_names=[b"X", "Y", "X"]
    )
    assert request.request_id() == "7"
    assert request.requested_output_names() == {"X", "Y"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"inputs": [], "requested_output_names": []}, "needs model_name"),
        ({"requested_output_names": [], "model_name": "m"}, "needs inputs; it may be an empty"),
        ({"inputs": [], "model_name": "m"}, "needs requested_output_names; it may be an empty"),
        ({"inputs": [], "requested_output_names": "X", "model_name": "m"}, "takes a list, not str"),
        ({"inputs": [], "requested_output_names": [1], "model_name": "m"}, "takes a str, not int"),
        ({"inputs": [1], "requested_output_names": [], "model_name": "m"}, "Tensor objects, not"),
    ],
)
def test_what_a_models_own_request_lacks_is_said(given: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        pb_utils.InferenceRequest(**given)


def test_parameters_of_a_models_own_request_are_plain() -> None:
    with pytest.raises(pb_utils.TritonModelException, match="to have type bool/int/str, found"):
        pb_utils.InferenceRequest(
            inputs=[], requested_output_names=[], model_name="m", parameters={"k": 1.5}
        )


def test_a_request_that_came_in_is_not_sent_on() -> None:
    request = receive([inference(tensor("A", [1]))], Nowhere())[0]
    with pytest.raises(pb_utils.TritonModelException, match="this one came in"):
        request.exec()


def test_the_caller_must_be_known_and_executing() -> None:

    def asked() -> pb_utils.InferenceRequest:
        return pb_utils.InferenceRequest(inputs=[], requested_output_names=[], model_name="m")

    request = NOBODYS.run(asked)
    with pytest.raises(pb_utils.TritonModelException, match="not known which model asks"):
        NOBODYS.run(request.exec)
    running = context.Running(model="m", instance="m_0", directory="/m")
    token = context.current.set(running)
    try:
        with pytest.raises(
            pb_utils.TritonModelException,
            match=r"BLS is only supported during the 'execute' function\.",
        ):
            request.exec()
    finally:
        context.current.reset(token)


def test_a_response_shows_what_it_was_made_of() -> None:
    error = pb_utils.TritonError("no")
    response = pb_utils.InferenceResponse([T], error, {"k": 1})
    assert response.output_tensors() == [T]
    assert response.has_error()
    assert response.error() is error
    assert response.parameters() == '{"k": 1}'
    assert pb_utils.InferenceResponse().parameters() == "{}"
    assert not pb_utils.InferenceResponse().has_error()


def test_a_response_is_made_of_tensors_errors_and_plain_parameters() -> None:
    with pytest.raises(pb_utils.TritonModelException, match="should not be empty"):
        pb_utils.InferenceResponse([None])  # type: ignore[list-item] # what a model may do
    with pytest.raises(TypeError, match=r"pb_utils\.Tensor objects, not ndarray"):
        pb_utils.InferenceResponse([np.zeros(1)])  # type: ignore[list-item] # what a model may do
    with pytest.raises(TypeError, match=r"pb_utils\.TritonError\(str\(error\)\)"):
        pb_utils.InferenceResponse(error=ValueError("x"))  # type: ignore[arg-type] # what a model may do
    with pytest.raises(pb_utils.TritonModelException, match="to have type bool/int/str, found"):
        pb_utils.InferenceResponse(parameters={"k": 1.5})
    with pytest.raises(pb_utils.TritonModelException, match="keys to have type str, found type"):
        pb_utils.InferenceResponse(parameters={1: 1})  # type: ignore[dict-item] # what a model may do


def test_a_response_is_what_it_was_when_it_was_made() -> None:
    outputs, parameters = [T], {"k": 1}
    response = pb_utils.InferenceResponse(outputs, parameters=parameters)
    outputs.clear()
    parameters["k"] = 2
    assert response.output_tensors() == [T]
    assert response.parameters() == '{"k": 1}'
    assert pb_utils.InferenceResponse(each for each in [T]).output_tensors() == [T]  # type: ignore[arg-type]  # what a model may do


def test_parameters_are_a_dict() -> None:
    with pytest.raises(pb_utils.TritonModelException, match=", got <class 'list'>"):
        pb_utils.InferenceResponse(parameters=[])  # type: ignore[arg-type]  # what a model may do
    with pytest.raises(pb_utils.TritonModelException, match=", got <class 'str'>"):
        pb_utils.InferenceRequest(
            inputs=[],
            requested_output_names=[],
            model_name="m",
            parameters="{}",  # type: ignore[arg-type]  # as above
        )


@pytest.mark.parametrize(
    ("name", "value"),
    [("Correlation ID", None), ("preferred_memory", None), ("preferred_memory", 1), ("trace", "t")],
)
def test_an_argument_of_another_type_is_a_type_error(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=name):
        pb_utils.InferenceRequest(
            inputs=[],
            requested_output_names=[],
            model_name="m",
            **{name.lower().replace(" ", "_"): value},
        )


def test_model_control_takes_text() -> None:
    for call in (pb_utils.load_model, pb_utils.unload_model, pb_utils.is_model_ready):
        with pytest.raises(TypeError, match=r"model_name=…\) takes a str, not NoneType"):
            call(None)  # type: ignore[arg-type]  # what a model may do
    with pytest.raises(TypeError, match=r"config=…\) takes a str, not dict"):
        pb_utils.load_model("m", {})  # type: ignore[arg-type]  # as above
    with pytest.raises(TypeError, match=r"model_version=…\) takes a str, not int"):
        pb_utils.is_model_ready("m", 1)  # type: ignore[arg-type]  # as above
    with pytest.raises(TypeError, match=r"unload_dependents=…\) takes a bool, not str"):
        pb_utils.unload_model("m", "yes")  # type: ignore[arg-type]  # as above


def test_preferred_memory_is_one_of_two() -> None:
    pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 1)
    with pytest.raises(TypeError, match="TRITONSERVER_MEMORY_CPU or TRITONSERVER_MEMORY_GPU"):
        pb_utils.PreferredMemory("cpu")  # type: ignore[arg-type]  # what a model may do


def test_the_logger_takes_text_and_its_own_levels() -> None:
    logger = pb_utils.Logger
    for write in (logger.log_info, logger.log_warn, logger.log_error, logger.log_verbose):
        with pytest.raises(TypeError, match="writes a str, not NoneType"):
            write(None)  # type: ignore[arg-type]  # what a model may do
    for level in (None, 1, logging.INFO):
        with pytest.raises(TypeError, match=r"Logger\.INFO, WARNING, ERROR or VERBOSE"):
            logger.log("text", level)  # type: ignore[arg-type]  # as above


def test_triton_has_the_same_names_in_a_second_module() -> None:
    behind = UTILS["c_python_backend_utils"]
    assert behind.Tensor is pb_utils.Tensor
    assert behind.shared_memory.free_memory() == 0


def test_errors_have_tritons_eight_codes() -> None:
    names = (
        "UNKNOWN INTERNAL NOT_FOUND INVALID_ARG UNAVAILABLE UNSUPPORTED ALREADY_EXISTS CANCELLED"
    )
    for number, name in enumerate(names.split()):
        error = pb_utils.TritonError("text", getattr(pb_utils.TritonError, name))
        assert (error.code(), f"{error.code()}", error.message()) == (number, name, "text")
    assert pb_utils.TritonError("text").code() is pb_utils.TritonError.INTERNAL
    with pytest.raises(TypeError, match="message must be a str, not ValueError"):
        pb_utils.TritonError(ValueError("x"))  # type: ignore[arg-type] # what a model may do
    with pytest.raises(TypeError, match="code must be one of"):
        pb_utils.TritonError("x", 3)  # type: ignore[arg-type] # what a model may do


def test_configs_are_read_by_name() -> None:
    config = {
        "input": [{"name": "A", "dims": [1]}],
        "output": [{"name": "B", "dims": [2]}],
        "model_transaction_policy": {"decoupled": True},
    }
    assert pb_utils.get_input_config_by_name(config, "A") == {"name": "A", "dims": [1]}
    assert pb_utils.get_output_config_by_name(config, "B") == {"name": "B", "dims": [2]}
    assert pb_utils.get_input_config_by_name(config, "B") is None
    assert pb_utils.get_output_config_by_name({}, "B") is None
    assert pb_utils.using_decoupled_model_transaction_policy(config)
    assert not pb_utils.using_decoupled_model_transaction_policy({})


def test_release_flags_other_than_the_usual_are_refused() -> None:
    request = receive([inference(tensor("A", [1]))], Nowhere())[0]
    request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_ALL)
    with pytest.raises(pb_utils.TritonModelException, match="Unsupported request release flag 9"):
        request.set_release_flags(9)


def test_outside_a_models_threads_its_folder_is_not_known() -> None:
    with pytest.raises(pb_utils.TritonModelException, match="does not know in which model"):
        NOBODYS.run(pb_utils.get_model_dir)


@pytest.mark.parametrize(
    ("name", "value", "fragment"),
    [
        ("model_version", 1 << 63, "from -1 to"),
        ("model_version", "1", "an int, not str"),
        ("flags", 1 << 32, "from 0 to"),
        ("flags", -1, "from 0 to"),
        ("flags", None, "an int, not NoneType"),
        ("timeout", 1 << 63, "from 0 to"),
        ("timeout", 1.5, "an int, not float"),
        ("correlation_id", 1 << 64, "from 0 to"),
    ],
)
def test_a_number_that_no_message_holds_is_refused_where_it_is_written(
    name: str, value: Any, fragment: str
) -> None:
    with pytest.raises(
        (TypeError, ValueError), match=f"{name} of an InferenceRequest is .*{fragment}"
    ):
        pb_utils.InferenceRequest(
            inputs=[], requested_output_names=[], model_name="m", **{name: value}
        )


def test_numbers_of_numpy_are_numbers() -> None:
    request = pb_utils.InferenceRequest(
        inputs=[],
        requested_output_names=[],
        model_name="m",
        model_version=np.int64(3),  # type: ignore[arg-type]  # what models do
        flags=np.int32(1),  # type: ignore[arg-type]  # as above
        timeout=np.uint8(5),  # type: ignore[arg-type]  # as above
    )
    assert (request.flags(), request.timeout()) == (1, 5)
    with pytest.raises(ValueError, match="flags of an InferenceRequest"):
        request.set_flags(1 << 40)


@pytest.mark.parametrize(
    "more",
    [
        {"request_id": "\ud800"},
        {"model_name": "\ud800"},
        {"correlation_id": "\ud800"},
        {"requested_output_names": ["\ud800"]},
        {"parameters": {"a": "\ud800"}},
        {"parameters": {"\ud800": 1}},
    ],
)
def test_text_that_cannot_be_sent_is_refused_where_it_is_written(more: dict[str, Any]) -> None:
    given = {"inputs": [], "requested_output_names": [], "model_name": "m", **more}
    with pytest.raises(pb_utils.TritonModelException, match="is not valid text"):
        pb_utils.InferenceRequest(**given)


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1])
def test_a_parameter_of_more_than_64_bits_is_refused_where_it_is_written(value: int) -> None:
    with pytest.raises(
        pb_utils.TritonModelException, match=r"parameters\['big'\] is .* more than 64 bits"
    ):
        pb_utils.InferenceResponse([T], parameters={"big": value})
    pb_utils.InferenceResponse([T], parameters={"fits": -(1 << 63), "on": True, "t": "é"})


def test_a_family_has_a_name_a_description_and_numbers_for_buckets() -> None:
    kind = pb_utils.MetricFamily.HISTOGRAM
    with pytest.raises(TypeError, match="name is a str, not int"):
        pb_utils.MetricFamily(5, "", kind)  # type: ignore[arg-type]  # what models do
    with pytest.raises(TypeError, match="description is a str, not NoneType"):
        pb_utils.MetricFamily("m", None, kind)  # type: ignore[arg-type]  # as above
