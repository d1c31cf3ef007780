"""The command line: Triton's rules and defaults, and what a mistake is answered with (section 17)."""

import pathlib
import sys

import pytest

from naiad.engine.readiness_policy import ReadinessPolicy
from naiad.metrics.options import MetricsOptions
from naiad.options.options import FLAGS, Options
from naiad.options.parsing import parse
from naiad.options.special import SPECIAL
from naiad.options.usage import HelpAsked, UsageError, markdown, usage
from naiad.repository.control_mode import ControlMode

REPOSITORY = "--model-repository=/models"
EXPLICIT = ("--model-control-mode=explicit",)


def test_defaults_are_tritons() -> None:
    assert parse([REPOSITORY]) == Options(model_repository=("/models",))


@pytest.mark.parametrize(
    ("words", "field", "expected"),
    [
        (["--http-port=9000"], "http_port", 9000),
        ([f"--http-max-input-size={sys.maxsize}"], "http_max_input_size", sys.maxsize),
        (["--http-port", "9000"], "http_port", 9000),
        (["--allow-http", "false", "--allow-grpc"], "allow_http", False),
        (["--allow-metrics=OFF"], "allow_metrics", False),
        (["--strict-readiness", "--id=x"], "strict_readiness", True),
        (["--strict-readiness=0"], "strict_readiness", False),
        (["--readiness-policy=any"], "readiness_policy", ReadinessPolicy(rule="any")),
        (["--readiness-policy", "models:a, b,a"], "readiness_policy", ReadinessPolicy(rule="models", models=("a", "b"))),
        (["--readiness-policy=all", "--strict-readiness=false"], "readiness_policy", ReadinessPolicy()),
        (["--log-verbose=2"], "log_verbose", 2),
        (["--log-verbose", "true"], "log_verbose", 1),
        (["--metrics-interval-ms=500.5"], "metrics_interval_ms", 500.5),
        (["--metrics-config=counter_latencies=false"], "metrics", MetricsOptions(counter_latencies=False)),
        (["--metrics-config", "summary_latencies=false"], "metrics", MetricsOptions()),
        (["--strict-model-config=true"], "disable_auto_complete_config", True),
        (["--grpc-use-ssl-mutual", "--grpc-server-cert=c", "--grpc-server-key=k"], "grpc_use_ssl", True),
        (["--exit-t=3"], "exit_timeout_secs", 3),
        (["--log-format=json"], "log_format", "json"),
        (["--model-control-mode=none"], "model_control_mode", ControlMode.NONE),
        (["--model-control-mode", "explicit"], "model_control_mode", ControlMode.EXPLICIT),
        (["--model-control-mode=POLL"], "model_control_mode", ControlMode.POLL),
        (["--model-control-mode=explicit", "--load-model=a", "--load-model=b"], "load_model", ("a", "b")),
        (["--load-model=*", "--model-control-mode=explicit"], "load_model", ("*",)),
        (["--model-memory-limit=12GiB", "--model-memory-limit=1:1.5GB", *EXPLICIT], "model_memory_limit", {-1: 12 << 30, 1: 1_500_000_000}),
        (["--model-memory-limit=4096", "--evicted-model-wait-secs=5"], "evicted_model_wait_secs", 5.0),
        (["--model-load-gpu-limit=0:0.9", "--model-load-gpu-limit", "1:1"], "model_load_gpu_limit", {0: 0.9, 1: 1.0}),
        (["--python-requirement=torch==2.8", "--python-requirement", "scipy "], "python_requirement", ("torch==2.8", "scipy")),
        (["--python-requirement=-r /models/requirements.txt"], "python_requirement", ("-r /models/requirements.txt",)),
        (['--model-config-override=a={"maxBatchSize": 8}', "--model-config-override", "b={}"], "model_config_override", {"a": '{"maxBatchSize": 8}', "b": "{}"}),
        (["--host-policy=a,cpu-cores=0-1,4-4", "--host-policy=a,numa-node=1", "--host-policy=b,cpu-cores=3-3"], "host_policy",
         {"a": ((0, 1, 4), 1), "b": ((3,), None)}),
        (["--rate-limit=OFF", "--allow-sagemaker=false"], "rate_limit", False),
        (["--rate-limit", "execution_count"], "rate_limit", True),
        (["--rate-limit-resource=R:4", "--rate-limit-resource=R:2:1", "--rate-limit-resource=R:3"], "rate_limit_resource", {("R", None): 3, ("R", 1): 2}),
    ],
)  # fmt: skip
def test_a_flag_sets_its_field(words: list[str], field: str, expected: object) -> None:
    assert getattr(parse([REPOSITORY, *words]), field) == expected


def test_repositories_add_up_and_repeat_once() -> None:
    options = parse(["--model-repository", "/a", "--model-store=/b", "--model-repository=/a"])
    assert options.model_repository == ("/a", "/b")


def test_backend_settings_are_kept_by_backend_and_globally() -> None:
    options = parse(
        [REPOSITORY, "--backend-config=onnxruntime,host=thread", "--backend-config", "default-max-batch-size=8"]
    )  # fmt: skip
    assert options.backend_config == {
        "onnxruntime": {"host": "thread"},
        "": {"default-max-batch-size": "8"},
    }


def test_restricted_apis_carry_their_header() -> None:
    options = parse(
        [REPOSITORY, "--http-restricted-api=health,metadata:admin=secret", "--grpc-restricted-protocol=inference:k=v=w"]
    )  # fmt: skip
    assert options.http_restricted_api == {
        "health": ("admin", "secret"),
        "metadata": ("admin", "secret"),
    }
    assert options.grpc_restricted_protocol == {"inference": ("k", "v=w")}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/api/predict/demo", "/api/predict/demo"),
        ("/api/predict/demo_1.x~y/", "/api/predict/demo_1.x~y"),
        ("/v3", "/v3"),
        ("/", ""),
        ("", ""),
    ],
)
def test_a_base_path_is_a_plain_path(given: str, path: str) -> None:
    assert parse([REPOSITORY, f"--http-base-path={given}"]).http_base_path == path


def test_options_without_effect_leave_one_note_each() -> None:
    options = parse([REPOSITORY, "--http-thread-count=16", "--pinned-memory-pool-byte-size=0"])
    assert len(options.notes) == 2
    assert all("has no effect here" in note for note in options.notes)


def test_what_sizes_tritons_python_processes_is_accepted_and_said() -> None:
    options = parse(
        [
            "--model-repository=/models",
            "--backend-config=python,shm-default-byte-size=1048576",
            "--backend-config=python,stub-timeout-seconds=60",
            "--backend-config=python,host=thread",
            "--backend-config=mine,shm-default-byte-size=1",
        ]
    )
    assert [note.partition(" has no effect here: ")[0] for note in options.notes] == [
        "--backend-config=python,shm-default-byte-size",
        "--backend-config=python,stub-timeout-seconds",
    ]
    assert options.backend_config["python"]["host"] == "thread"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--model-repository is missing"),
        ([REPOSITORY, "--http-prot=1"], "did you mean --http-port?"),
        ([REPOSITORY, "--grpc-k=1"], "ambiguous"),
        ([REPOSITORY, "--http-port=x"], "expected an integer"),
        ([REPOSITORY, "--http-port"], "needs a value"),
        ([REPOSITORY, "--http-port=70000"], "at most 65535"),
        ([REPOSITORY, "--http-port=8001"], "--grpc-port and --http-port are both"),
        ([REPOSITORY, "--allow-http=maybe"], "expected true, on, 1"),
        ([REPOSITORY, "--http-max-input-size=0"], "greater than 0: it counts bytes, so that 0 lets no request in"),
        ([REPOSITORY, "--http-max-input-size=-1"], "must be greater than 0"),
        ([REPOSITORY, f"--http-max-input-size={sys.maxsize + 1}"], f"at most {sys.maxsize}"),
        ([REPOSITORY, "--shutdown-delay-secs=inf"], "finite"),
        ([REPOSITORY, "--metrics-interval-ms=nan"], "finite"),
        ([REPOSITORY, "--backend-config=default-max-batch-size=abc"], "write default-max-batch-size=4, or leave it out"),
        ([REPOSITORY, "--model-load-thread-count=0"], "must be greater than 0"),
        ([REPOSITORY, "--readiness-policy=some"], "expected all, any, or models: with the names of models"),
        ([REPOSITORY, "--readiness-policy=models:"], "expected all, any, or models: with the names of models"),
        ([REPOSITORY, "--readiness-policy=any:a"], "expected all, any, or models: with the names of models"),
        ([REPOSITORY, "--readiness-policy=any", "--strict-readiness=false"], "leave it out, or --readiness-policy"),
        ([REPOSITORY, "--log-format=xml"], "expected one of default, ISO8601, json"),
        ([REPOSITORY, "--model-control-mode=polling"], "expected none, poll or explicit"),
        ([REPOSITORY, "--model-control-mode=poll", "--repository-poll-secs=-1"], "at least 0"),
        ([REPOSITORY, "--model-control-mode=poll", "--load-model=x"], "requires setting '--model-control-mode=explicit'"),
        ([REPOSITORY, "--load-model=x"], "Use of '--load-model' requires setting '--model-control-mode=explicit' as well"),
        ([REPOSITORY, "--model-control-mode=explicit", "--load-model="], "--load-model is empty"),
        ([REPOSITORY, "--model-control-mode=explicit", "--load-model=*", "--load-model=x"], "must be the ONLY startup model"),
        ([REPOSITORY, "--allow-sagemaker=true"], "not supported yet"),
        ([REPOSITORY, "--metrics-config=histogram_latencies"], "expected KEY=VALUE"),
        ([REPOSITORY, "--http-address=[::1]:8000"], "the port is an option of its own"),
        ([REPOSITORY, "--http-address=[::1"], "expected an IPv6 address in brackets"),
        ([REPOSITORY, "--grpc-address=127.0.0.1:8001"], "without a port, which is an option of its own"),
        ([REPOSITORY, "--http-address=::", "--grpc-port=8000"], "--grpc-port and --http-port are both 0.0.0.0:8000"),
        ([REPOSITORY, "--http-restricted-api=health"], "expected API,API:HEADER=VALUE"),
        ([REPOSITORY, "--http-restricted-api=helth:k=v"], "unknown restricted api 'helth'; did you mean health?"),
        ([REPOSITORY, "--grpc-restricted-protocol=helth:k=v"], "unknown restricted protocol 'helth'; did you mean health?"),
        ([REPOSITORY, "--grpc-restricted-protocol=health:k=v", "--grpc-restricted-protocol=health:a=b"],
         "restricted protocol 'health' can not be specified in multiple config groups"),
        ([REPOSITORY, "--http-max-input-size=0"], "--http-max-input-size=0: must be greater than 0"),
        ([REPOSITORY, "--http-restricted-api=health:k=v", "--http-restricted-api=health:a=b"], "multiple"),
        ([REPOSITORY, "--http-base-path=api"], "begins with a slash"),
        ([REPOSITORY, "--http-base-path=/a//b"], "begins with a slash"),
        ([REPOSITORY, "--http-base-path=/a?b=c"], "letters, digits and"),
        ([REPOSITORY, "--http-base-path=/a%2Fb"], "letters, digits and"),
        ([REPOSITORY, "--http-base-path=/a/../b"], "without them"),
        ([REPOSITORY, "--http-base-path=/v2/demo"], "choose another first segment"),
        ([REPOSITORY, "--http-base-path=/docs"], "choose another first segment"),
        ([REPOSITORY, "--grpc-use-ssl"], "--grpc-server-cert"),
        ([REPOSITORY, "serve"], "unexpected argument"),
        ([REPOSITORY, "--allow-http=0", "--allow-grpc=0", "--allow-metrics=0"], "nothing would be served"),
        ([REPOSITORY, "--model-memory-limit=lots"], "expected BYTES for the host's memory or ID:BYTES for a GPU's"),
        ([REPOSITORY, "--model-memory-limit=0"], "expected BYTES"),
        ([REPOSITORY, "--model-memory-limit=4GiB"], "nothing would load a model again"),
        ([REPOSITORY, "--evicted-model-wait-secs=4"], "needs --model-memory-limit"),
        ([REPOSITORY, "--rate-limit=sometimes"], "expected off or execution_count"),
        ([REPOSITORY, "--rate-limit-resource=R"], "option format is '<resource_name>:<count>:<device>' or '<resource_name>:<count>'. Got R: write"),
        ([REPOSITORY, "--rate-limit-resource=R:1:2:3"], "Got R:1:2:3: write a name"),
        ([REPOSITORY, "--rate-limit-resource=R:-1"], "0 or more"),
        ([REPOSITORY, "--host-policy=a"], "option format is '<policy name>,<setting>=<value>'. Got a: write for example gpu_0,numa-node=0"),
        ([REPOSITORY, "--host-policy=a,cores=0-1"], "Unsupported host policy setting 'cores' is specified, supported settings are 'numa-node', 'cpu-cores'"),
        ([REPOSITORY, "--host-policy=a,cpu-cores=0"], "format is '<lower_cpu_core_id>-<upper_cpu_core_id>'. Got 0: write for example"),
        ([REPOSITORY, "--host-policy=a,cpu-cores=3-1"], "Got 3-1"),
        ([REPOSITORY, "--host-policy=a,numa-node=x"], "Can't parse 'x' to integer"),
        ([REPOSITORY, "--model-load-gpu-limit=0.5"], "expected ID:FRACTION"),
        ([REPOSITORY, "--model-config-override=resnet"], "expected NAME=JSON"),
        ([REPOSITORY, '--model-config-override={"maxBatchSize": 8}'], "expected NAME=JSON"),
        ([REPOSITORY, "--model-config-override=resnet=8"], "expected NAME=JSON"),
        ([REPOSITORY, "--model-config-override=resnet={maxBatchSize: 8}"], "--model-config-override=resnet: this is not JSON: "),
        ([REPOSITORY, "--model-config-override=a={}", "--model-config-override=a={}"], "--model-config-override=a is given twice"),
        ([REPOSITORY, "--python-requirement=-r more.txt"], "expected one package as pip takes it"),
        ([REPOSITORY, "--python-requirement="], "expected one package"),
        ([REPOSITORY, "--model-load-gpu-limit=0:1.5"], "expected ID:FRACTION"),
    ],
)  # fmt: skip
def test_a_mistake_is_answered_with_what_to_write(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(words)
    assert message in str(caught.value)


def test_the_repository_is_polled_in_mode_poll_only() -> None:
    words = [REPOSITORY, "--repository-poll-secs=3", "--repository-quiet-secs=0.5"]
    polls = parse([*words, "--model-control-mode=poll"])
    assert (polls.repository_poll_secs, polls.repository_quiet_secs, polls.notes) == (3, 0.5, ())
    assert parse(words).notes == tuple(
        f"--{name} has no effect here: the repository is polled only with --model-control-mode=poll"
        for name in ("repository-poll-secs", "repository-quiet-secs")
    )


def test_help_leaves_out_what_has_no_effect_and_help_all_does_not() -> None:
    for word, everything in (("--help", False), ("-h", False), ("--help-all", True)):
        with pytest.raises(HelpAsked) as asked:
            parse([word])
        assert asked.value.everything is everything
    short, whole = (usage("naiad serve", columns=80, everything=each) for each in (False, True))
    for name, flag in FLAGS.items():
        assert f"--{name} " in whole
        assert (f"--{name} <" in short) == (not flag.idle and not flag.missing)
    assert "Port to listen on. [8000]" in short
    assert "no effect here:" not in short
    assert "Features that are not supported yet" not in short
    hidden = sum(bool(flag.idle or flag.missing) for flag in FLAGS.values())
    assert f"{hidden} more options" in short
    assert "naiad serve --help-all" in " ".join(short.split())
    assert "more options" not in whole


@pytest.mark.parametrize("columns", [20, 80, 130])
def test_help_is_wrapped_to_the_terminal(columns: int) -> None:
    """Words stay whole; nothing is narrower than the longest option."""
    text = usage("naiad serve", columns=columns, everything=True)
    widest = max(len(line) for line in text.splitlines())
    assert widest <= max(columns, 70)
    assert widest > columns / 2
    words = [word for flag in FLAGS.values() for word in flag.help.split()]
    assert set(words) <= set(text.split())


def test_every_flag_is_wired_to_something() -> None:
    fields = set(Options.__struct_fields__)
    for flag in FLAGS.values():
        assert flag.field in fields or flag.idle or flag.missing or flag.name in SPECIAL, flag.name


def test_the_page_of_options_is_up_to_date() -> None:
    page = pathlib.Path(__file__).parents[3] / "docs" / "options.md"
    assert page.read_text() == markdown(), "run: python -m naiad.options.usage > docs/options.md"


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("0.0.0.0", "0.0.0.0"),
        ("::", "::"),
        ("[::]", "::"),
        ("ipv6:::1", "::1"),
        ("ipv6:[::1]", "::1"),
        ("ipv6:[::]", "::"),
        ("ipv4:127.0.0.1", "127.0.0.1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("[fe80::1%eth0]", "fe80::1%eth0"),
        ("localhost", "localhost"),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
def test_an_address_may_be_written_in_every_form_of_tritons(written: str, address: str) -> None:
    options = parse(
        [REPOSITORY, *(f"--{name}-address={written}" for name in ("http", "grpc", "metrics"))]
    )
    assert (options.http_address, options.grpc_address, options.metrics_address) == (address,) * 3


@pytest.mark.parametrize(
    ("setting", "note"),
    [
        ("latencies=1", "no setting is called latencies: it has no effect"),
        ("histogram_latencies=false", ""),
        ("summary_latencies=off", ""),
    ],
)
def test_an_unknown_setting_of_metrics_is_a_line_in_the_log_and_no_reason_not_to_serve(
    setting: str, note: str
) -> None:
    notes = [
        note
        for note in parse([REPOSITORY, f"--metrics-config={setting}"]).notes
        if "metrics-config" in note
    ]
    assert [note in each for each in notes] == ([True] if note else [])


def test_settings_of_metrics_add_up_and_the_last_one_of_a_key_counts() -> None:
    given = ("summary_latencies=true", "global,histogram_latencies=on", "summary_quantiles=0.9:0.1,0.5:0.05,0.9:0.01", "exemplars=1", "exemplars=0")  # fmt: skip
    options = parse([REPOSITORY, *(f"--metrics-config={setting}" for setting in given)])
    assert options.metrics == MetricsOptions(
        summary_latencies=True, histogram_latencies=True, quantiles=((0.5, 0.05), (0.9, 0.01))
    )


@pytest.mark.parametrize("written", ["", "0.5", "0.5:x", "1.5:0.1", "0.5:0.05,", "nan:0.1"])
def test_quantiles_that_are_not_valid_are_refused_with_their_form(written: str) -> None:
    with pytest.raises(UsageError, match=r"expected QUANTILE:ERROR, both from 0 to 1"):
        parse([REPOSITORY, f"--metrics-config=summary_quantiles={written}"])
