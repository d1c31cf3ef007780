"""Models that a server refuses, each in a few lines: what `naiad check` and the server say of them is compared."""

import dataclasses
import gzip
import io
import os
import pathlib
import tarfile
import types
from collections.abc import Callable, Mapping

import onnx
from onnx import TensorProto, helper

from tests.server.config.onnx_models import model, value
from tests.support import netdef

IN = 'input { name: "IN" data_type: TYPE_FP32 dims: [ 2 ] }\n'
OUT = 'output { name: "OUT" data_type: TYPE_FP32 dims: [ 2 ] }\n'
PYTHON = 'backend: "python"\nmax_batch_size: 4\n'
ONNX = 'backend: "onnxruntime"\nmax_batch_size: 4\n'
CODE = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
COMPLETES = "class TritonPythonModel:\n    @staticmethod\n    def auto_complete_config(config):\n        {}\n    def execute(self, requests):\n        return []\n"
ALL = "version_policy { all { } }\n"
_INTEGER = value("IN", ["N", 2], TensorProto.INT64)
GRAPH = model([value("IN", ["N", 2])], [value("OUT", ["N", 2])])
FIXED = model([value("IN", [1, 2])], [value("OUT", [1, 2])])
TARBALL = "$$TRITON_MODEL_DIRECTORY/env.tar.gz"

CAFFE2 = 'platform: "caffe2_netdef"\nmax_batch_size: 4\n' + IN
RELU: netdef.Op = ("Relu", ["IN"], ["OUT"], {})

Content = str | bytes | onnx.ModelProto | Callable[[pathlib.Path], None] | None
"""Of a file; a function makes it; None is a folder."""

_NONE: Mapping[str, Content] = types.MappingProxyType({})


def netdefs(*ops: netdef.Op) -> dict[str, Content]:
    """A pair of nets of Caffe2 from IN to OUT."""
    init: netdef.Op = ("ConstantFill", [], ["unused"], {"shape": [1]})
    return {
        "1/model.netdef": netdef.net(ops, ["IN"], ["OUT"]),
        "1/init_model.netdef": netdef.net([init]),
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Broken:
    """A model that is refused.

    Attributes:
        config: the text of config.pbtxt; None for no such file.
        files: by path in the model's folder.
        load: only loading it shows why.
        note: whether it is refused depends on the machine that serves.
    """

    config: str | bytes | None
    files: Mapping[str, Content] = dataclasses.field(default_factory=dict)
    load: bool = False
    note: bool = False

    def write(self, folder: pathlib.Path) -> None:
        """Make the model's folder."""
        folder.mkdir(parents=True)
        if self.config is not None:
            data = self.config.encode() if isinstance(self.config, str) else self.config
            (folder / "config.pbtxt").write_bytes(data)
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.mkdir()
            elif isinstance(content, str):
                path.write_text(content)
            elif isinstance(content, bytes):
                path.write_bytes(content)
            elif isinstance(content, onnx.ModelProto):
                path.write_bytes(content.SerializeToString())
            else:
                content(path)


def link(target: str) -> Callable[[pathlib.Path], None]:
    """A link to there."""
    return lambda path: path.symlink_to(target)


def tarball(*names: str) -> bytes:
    """A compressed tarball of empty files."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    return data.getvalue()


def python(
    more: str = "",
    *,
    code: Content = CODE,
    head: str = PYTHON,
    load: bool = False,
    files: Mapping[str, Content] = _NONE,
) -> Broken:
    """A Python model with further lines in its config."""
    return Broken(config=head + IN + OUT + more, files={"1/model.py": code, **files}, load=load)


def tensor(fields: str, *, head: str = PYTHON) -> Broken:
    """A Python model with another input."""
    return Broken(config=head + f"input {{ {fields} }}\n" + OUT, files={"1/model.py": CODE})


def environment(path: str = TARBALL, *, files: Mapping[str, Content] = _NONE) -> Broken:
    """A Python model with an environment, in a process."""
    more = parameter("EXECUTION_ENV_PATH", path) + parameter("naiad.host", "process")
    return Broken(config=PYTHON + IN + OUT + more, files={"1/model.py": CODE, **files})


def completing(line: str) -> Broken:
    """A Python model whose auto_complete_config is this line."""
    return Broken(config=PYTHON, files={"1/model.py": COMPLETES.format(line)}, load=True)


def graph(
    config: str = IN + OUT,
    proto: Content = GRAPH,
    *,
    head: str = ONNX,
    files: Mapping[str, Content] = _NONE,
) -> Broken:
    """An ONNX model."""
    return Broken(config=head + config, files={"1/model.onnx": proto, **files})


def sequences(*controls: str) -> Broken:
    """A Python model with the sequence batcher and these control inputs."""
    return python(
        f"sequence_batching {{ {' '.join(f'control_input {{ {each} }}' for each in controls)} }}\n"
    )


START = 'name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }'
STATE = 'input_name: "S" output_name: "T" data_type: TYPE_FP32 dims: 2'
FROM_FILE = ' initial_state { name: "i" data_type: TYPE_FP32 dims: 2 data_file: "start" }'


def state(fields: str, *, files: Mapping[str, Content] = _NONE) -> Broken:
    """A Python model with such an implicit state."""
    return python(f"sequence_batching {{ state {{ {fields} }} }}\n", files=files)


def parameter(key: str, text: str) -> str:
    """A parameter as a line of a config."""
    return f'parameters {{ key: "{key}" value {{ string_value: "{text}" }} }}\n'


def _external(location: str = "w.bin") -> onnx.ModelProto:
    proto = model([value("IN", ["N", 2])], [value("OUT", ["N", 2])], initializers={"w": [1.0]})
    weight = proto.graph.initializer[0]
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    return proto


def _sequence() -> onnx.ModelProto:
    proto = model([value("IN", ["N", 2])], [])
    proto.graph.output.append(
        helper.make_tensor_sequence_value_info("OUT", TensorProto.FLOAT, None)
    )
    return proto


def _text_model(locale: str) -> onnx.ModelProto:
    node = helper.make_node(
        "StringNormalizer", ["IN"], ["OUT"], case_change_action="LOWER", locale=locale
    )
    tensors = [value(name, [None], TensorProto.STRING) for name in ("IN", "OUT")]
    graph_of_text = helper.make_graph([node], "g", tensors[:1], tensors[1:])
    return helper.make_model(
        graph_of_text, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
    )


def _agent(name: str, *parameters: tuple[str, str]) -> str:
    lines = "".join(f'parameters {{ key: "{key}" value: "{text}" }} ' for key, text in parameters)
    return f'model_repository_agents {{ agents {{ name: "{name}" {lines} }} }}\n'


_ORDERED = "preserve_ordering: true "
_DELAY = "default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5 }"


def ensemble(model: str, *, reads: str = "IN", more: str = "") -> Broken:
    """An ensemble of one step."""
    step = (
        f'step {{ model_name: "{model}" model_version: -1 input_map {{ key: "IN" value: "{reads}" }}'
        ' output_map { key: "OUT" value: "OUT" } }'
    )
    config = f'platform: "ensemble"\n{IN}{OUT}ensemble_scheduling {{ {step} }}\n{more}'
    return Broken(config=config, files={"1": None})


BROKEN: dict[str, Broken] = {
    # what is not a config
    "unknown_field": python("max_batchsize: 4\n"),
    "unknown_field_in_a_block": python("dynamic_batching { delay: 4 }\n"),
    "brace_is_not_closed": python("dynamic_batching {\n"),
    "brace_too_many": python("}\n"),
    "text_for_a_number": python(head='backend: "python"\nmax_batch_size: oops\n'),
    "text_without_quotes": python("platform: python\n"),
    "text_is_not_closed": python('platform: "py\n'),
    "unknown_kind": python("instance_group { kind: GPU }\n"),
    "unknown_datatype": tensor('name: "IN" data_type: TYPE_FLOAT dims: [ 2 ]'),
    "not_a_boolean": python("dynamic_batching { preserve_ordering: maybe }\n"),
    "list_without_comma": tensor('name: "IN" data_type: TYPE_FP32 dims: [ 2 3 ]'),
    "placeholder": python(head='backend: "python"\nmax_batch_size: ${size}\n'),
    "two_schedulers": python("dynamic_batching { }\nsequence_batching { }\n"),
    "field_twice": python("max_batch_size: 8\n"),
    "number_too_large": python(head='backend: "python"\nmax_batch_size: 99999999999\n'),
    "negative_count": python("dynamic_batching { max_queue_delay_microseconds: -1 }\n"),
    "utf_16": Broken(config=(PYTHON + IN + OUT).encode("utf-16"), files={"1/model.py": CODE}),
    "byte_order_mark": Broken(
        config=(PYTHON + IN + OUT).encode("utf-8-sig"), files={"1/model.py": CODE}
    ),
    "not_utf_8": Broken(
        config=(PYTHON + IN + OUT).encode() + b'platform: "\xff"\n', files={"1/model.py": CODE}
    ),
    "binary_config": Broken(config=b"\x00\x01\x02" * 99, files={"1/model.py": CODE}),
    "huge_config": Broken(config=b"#" * (2 << 20), files={"1/model.py": CODE}),
    "config_is_a_folder": Broken(config=None, files={"config.pbtxt": None, "1/model.py": CODE}),
    # tensors
    "input_without_name": tensor("data_type: TYPE_FP32 dims: [ 2 ]"),
    "input_without_datatype": tensor('name: "IN" dims: [ 2 ]'),
    "input_without_dims": tensor('name: "IN" data_type: TYPE_FP32'),
    "dimension_of_zero": tensor('name: "IN" data_type: TYPE_FP32 dims: [ 0 ]'),
    "negative_dimension": tensor('name: "IN" data_type: TYPE_FP32 dims: [ -2 ]'),
    "too_many_elements": tensor('name: "IN" data_type: TYPE_FP32 dims: [ 4294967296, 4294967296 ]'),
    "reshape_of_another_size": tensor(
        'name: "IN" data_type: TYPE_FP32 dims: [ 4 ] reshape { shape: [ 3 ] }'
    ),
    "reshape_of_other_free_sizes": tensor(
        'name: "IN" data_type: TYPE_FP32 dims: [ -1, 4 ] reshape { shape: [ 4 ] }'
    ),
    "empty_reshape_without_batches": tensor(
        'name: "IN" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] }',
        head='backend: "python"\n',
    ),
    "image_format_without_three_dims": tensor(
        'name: "IN" data_type: TYPE_FP32 dims: [ 2 ] format: FORMAT_NCHW'
    ),
    "shape_tensor": tensor('name: "IN" data_type: TYPE_INT32 dims: [ 2 ] is_shape_tensor: true'),
    "output_without_dims": Broken(
        config=PYTHON + IN + 'output { name: "OUT" data_type: TYPE_FP32 }',
        files={"1/model.py": CODE},
    ),
    # names, platforms, backends
    "name_of_another_folder": python('name: "other"\n'),
    "unknown_backend": python(head='backend: "nonesuch"\n'),
    "misspelled_backend": python(head='backend: "pyton"\n'),
    "backend_tensorrt": Broken(config='backend: "tensorrt"\n', files={"1/model.plan": b"x"}),
    "backend_pytorch": Broken(config=None, files={"1/model.pt": b"x"}),
    "backend_tensorflow": Broken(
        config='platform: "tensorflow_graphdef"\n' + IN + OUT, files={"1/model.graphdef": b"x"}
    ),
    "backend_openvino": Broken(config=None, files={"1/model.xml": b"x"}),
    "backend_caffe2": Broken(config=None, files={"1/model.netdef": b"x"}),
    "caffe2_without_inputs": Broken(config="", files=netdefs(RELU)),
    "caffe2_without_init_net": Broken(
        config=CAFFE2, files={"1/model.netdef": netdefs(RELU)["1/model.netdef"]}
    ),
    "caffe2_operators": Broken(
        config=CAFFE2, files=netdefs(RELU, ("NMS", ["OUT"], ["q"], {}), ("Relu", ["r"], ["s"], {}))
    ),
    "caffe2_output": Broken(config=CAFFE2 + OUT.replace("2", "3"), files=netdefs(RELU)),
    "caffe2_datatype": Broken(
        config=CAFFE2.replace("FP32", "INT32"),
        files=netdefs(("Elu", ["IN"], ["OUT"], {})),
        load=True,
    ),
    "backend_fil": Broken(config=None, files={"1/checkpoint.tl": b"x"}),
    "unknown_platform": python(head='platform: "nonesuch"\n'),
    "platform_of_another_backend": python(
        head='platform: "tensorrt_plan" backend: "onnxruntime"\n'
    ),
    "ensemble_with_a_backend": python('platform: "ensemble"\n'),
    "no_backend": Broken(config="max_batch_size: 1\n" + IN + OUT, files={"1/data.bin": b""}),
    # batching
    "negative_batch_size": python(head='backend: "python"\nmax_batch_size: -1\n'),
    "preferred_size_too_large": python("dynamic_batching { preferred_batch_size: [ 5 ] }\n"),
    "preferred_size_of_zero": python("dynamic_batching { preferred_batch_size: [ 0 ] }\n"),
    "no_default_priority": python("dynamic_batching { priority_levels: 2 }\n"),
    "default_priority_too_high": python(
        "dynamic_batching { priority_levels: 2 default_priority_level: 3 }\n"
    ),
    "policy_of_no_priority": python(
        "dynamic_batching { priority_levels: 2 default_priority_level: 1 "
        "priority_queue_policy { key: 3 value { max_queue_size: 1 } } }\n"
    ),
    "order_and_priorities": python(
        f"dynamic_batching {{ {_ORDERED} priority_levels: 2 default_priority_level: 1 }}\n"
    ),
    "order_and_delay": python(f"dynamic_batching {{ {_ORDERED} {_DELAY} }}\n"),
    # versions and files
    "policy_names_no_version": python("version_policy { specific { versions: [ 3 ] } }\n"),
    "no_version": Broken(config=PYTHON + IN + OUT),
    "padded_version": Broken(config=PYTHON + IN + OUT, files={"01/model.py": CODE}),
    "version_is_a_file": Broken(config=PYTHON + IN + OUT, files={"1": b""}),
    "version_is_a_broken_link": Broken(config=PYTHON + IN + OUT, files={"1": link("nowhere")}),
    "model_beside_the_version": Broken(config=None, files={"model.onnx": GRAPH}),
    "model_beside_an_empty_version": Broken(config=None, files={"model.onnx": GRAPH, "1": None}),
    "model_of_another_name": Broken(config=None, files={"1/net.onnx": GRAPH}),
    "no_model_file": Broken(config=PYTHON + IN + OUT, files={"1": None}),
    "named_file_is_missing": python('default_model_filename: "other.py"\n'),
    "no_onnx_file": Broken(config=ONNX + IN + OUT, files={"1/net.onnx": GRAPH}),
    "model_is_a_broken_link": python(code=link("nowhere.py")),
    "model_is_a_folder": python(code=None),
    "model_links_to_itself": python(code=link("model.py")),
    "version_links_to_itself": Broken(config=PYTHON + IN + OUT, files={"1": link("1")}),
    "config_links_to_itself": Broken(
        config=None, files={"config.pbtxt": link("config.pbtxt"), "1/model.py": CODE}
    ),
    "config_is_a_pipe": Broken(config=None, files={"config.pbtxt": os.mkfifo, "1/model.py": CODE}),
    "onnx_is_an_empty_folder": graph(proto=None),
    "onnx_links_to_itself": graph(proto=link("model.onnx")),
    "model_is_a_pipe": python(code=os.mkfifo),
    "file_of_another_model": python('default_model_filename: "../../no_version/x.py"\n'),
    "file_at_an_absolute_path": python('default_model_filename: "/etc/hostname"\n'),
    "file_for_a_gpu_elsewhere": graph(
        IN + OUT + 'cc_model_filenames { key: "7.5" value: "../../a/1/model.onnx" }\n'
    ),
    "warmup_file_elsewhere": python(
        'model_warmup { name: "w" batch_size: 1 inputs { key: "IN" value { input_data_file: "../../x" } } }\n'
    ),
    "file_name_too_long": python(f'default_model_filename: "{"a" * 300}"\n'),
    "labels_are_missing": Broken(
        config=PYTHON + IN + OUT.replace("dims", 'label_filename: "labels.txt" dims'),
        files={"1/model.py": CODE},
    ),
    "labels_elsewhere": Broken(
        config=PYTHON + IN + OUT.replace("dims", 'label_filename: "../x.txt" dims'),
        files={"1/model.py": CODE},
    ),
    "custom_batching_library": python(files={"batchstrategy.so": b""}),
    # one of two versions, for which the model does not load
    "one_version_without_file": python(ALL, files={"2": None}),
    "one_version_with_bad_code": python(ALL, files={"2/model.py": "def (:"}),
    "one_version_of_another_datatype": graph(
        IN + OUT + ALL, files={"2/model.onnx": model([_INTEGER], [value("OUT", ["N", 2])])}
    ),
    "one_version_that_is_not_onnx": graph(IN + OUT + ALL, files={"2/model.onnx": b"\xff" * 99}),
    "one_version_that_raises": python(
        ALL, load=True, files={"2/model.py": "raise OSError\n" + CODE}
    ),
    # environments
    "environment_is_missing": environment(),
    "environment_is_elsewhere": dataclasses.replace(environment("/nowhere/env.tar.gz"), note=True),
    "environment_leads_out": environment("$$TRITON_MODEL_DIRECTORY/../env.tar.gz"),
    "environment_is_no_tarball": environment(files={"env.tar.gz": b"no tarball"}),
    "environment_is_cut_off": environment(files={"env.tar.gz": gzip.compress(b"\0" * 9999)[:20]}),
    "environment_member_leads_out": environment(files={"env.tar.gz": tarball("../x")}),
    "environment_without_activate": environment(files={"env.tar.gz": tarball("bin/python")}),
    "environment_one_level_down": environment(files={"env.tar.gz": tarball("env/bin/activate")}),
    "environment_folder_without_activate": environment(
        "$$TRITON_MODEL_DIRECTORY/env", files={"env/bin/python": b""}
    ),
    "environment_folder_without_python": environment(
        "$$TRITON_MODEL_DIRECTORY/env", files={"env/bin/activate": b""}
    ),
    "environment_in_a_thread": python(
        parameter("EXECUTION_ENV_PATH", TARBALL), files={"env.tar.gz": b""}
    ),
    "requirements_in_a_thread": python(files={"requirements.txt": "numpy\n"}),
    "requirements_are_not_text": python(
        parameter("naiad.host", "process"), files={"requirements.txt": b"\xff\xfe"}
    ),
    "requirements_include_nothing": python(
        parameter("naiad.host", "process"), load=True, files={"requirements.txt": "-r more.txt\n"}
    ),
    "requirements_setting": python(parameter("naiad.requirements", "perhaps")),
    # instances
    "gpus_of_a_cpu_group": python("instance_group { kind: KIND_CPU gpus: [ 0 ] }\n"),
    "gpus_of_a_model_group": python("instance_group { kind: KIND_MODEL gpus: [ 0 ] }\n"),
    "gpu_without_a_gpu": python("instance_group { kind: KIND_GPU }\n"),
    "gpu_that_is_not_here": python("instance_group { kind: KIND_GPU gpus: [ 7 ] }\n"),
    "too_many_instances": python("instance_group { count: 2147483647 }\n"),
    "too_many_instances_of_two_groups": python(
        "instance_group { count: 1000 }\ninstance_group { count: 25 }\n"
    ),
    "profile": python('instance_group { profile: "0" }\n'),
    "too_many_resources": python(
        'instance_group [ { kind: KIND_CPU count: 1 rate_limiter { resources { name: "R" count: 1 } } },\n'
        '  { kind: KIND_CPU count: 1 rate_limiter { resources { name: "R" count: 2 } } } ]\n'
    ),
    "resource_of_two_kinds": python(
        'instance_group [ { kind: KIND_CPU count: 1 rate_limiter { resources { name: "R" count: 1 } } },\n'
        '  { kind: KIND_CPU count: 1 rate_limiter { resources { name: "R" count: 1 global: true } } } ]\n'
    ),
    "only_passive_instances": python("instance_group { passive: true }\n"),
    # parameters
    "unknown_host": python(parameter("naiad.host", "elsewhere")),
    "limit_is_not_a_number": python(parameter("naiad.execute_timeout", "soon")),
    "limit_in_a_thread": python(parameter("naiad.execute_timeout", "2")),
    "force_cpu_only": python(parameter("FORCE_CPU_ONLY_INPUT_TENSORS", "perhaps")),
    "visible_gpus": python(
        parameter("naiad.host", "process") + parameter("naiad.visible_gpus", "some")
    ),
    "thread_count": graph(IN + OUT + parameter("intra_op_thread_count", "many")),
    "fill_batches": graph(IN + OUT + parameter("naiad.fill_batches", "many")),
    "fill_batches_unbatched": graph(IN + OUT + parameter("naiad.fill_batches", "on")),
    "fill_batches_beyond": graph(
        IN + OUT + "dynamic_batching { }\n" + parameter("naiad.fill_batches", "1,64")
    ),
    "execution_mode": graph(IN + OUT + parameter("execution_mode", "7")),
    "memory_arena": graph(IN + OUT + parameter("enable_mem_arena", "perhaps")),
    "unknown_accelerator": graph(
        IN
        + OUT
        + 'optimization { execution_accelerators { cpu_execution_accelerator { name: "nonesuch" } } }\n'
    ),
    "accelerator_not_installed": graph(
        IN
        + OUT
        + 'optimization { execution_accelerators { cpu_execution_accelerator { name: "openvino" } } }\n'
    ),
    "operator_library": dataclasses.replace(
        graph(IN + OUT + 'model_operations { op_library_filename: "/nowhere/lib.so" }\n'), load=True
    ),
    "too_many_in_two_groups": graph(
        IN + OUT + "instance_group [ { count: 600 }, { count: 600 } ]\n"
    ),
    # repository agents
    "unknown_agent": python(_agent("nonesuch")),
    "agent_of_another_folder": python(_agent("../checksum")),
    "checksum_differs": python(_agent("checksum", ("MD5:1/model.py", "0" * 32))),
    "checksum_of_no_file": python(_agent("checksum", ("MD5:1/other.py", "0" * 32))),
    "checksum_of_a_file_elsewhere": python(_agent("checksum", ("MD5:../x", "0" * 32))),
    "checksum_without_an_algorithm": python(_agent("checksum", ("1/model.py", "0" * 32))),
    "checksum_of_another_algorithm": python(_agent("checksum", ("CRC:1/model.py", "0" * 8))),
    # ONNX files and graphs
    "not_onnx": graph(proto=b"\xff" * 99),
    "empty_onnx": graph(proto=b""),
    "onnx_is_a_pointer": graph(proto=b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n"),
    "onnx_is_cut_off": graph(proto=GRAPH.SerializeToString()[:-9]),
    "onnx_input_of_another_name": graph(IN.replace("IN", "INN") + OUT),
    "onnx_output_of_another_name": graph(IN + OUT.replace("OUT", "OUTPUT")),
    "onnx_input_is_not_listed": graph(
        IN + OUT, model([value("IN", ["N", 2]), value("MORE", ["N", 3])], [value("OUT", ["N", 2])])
    ),
    "onnx_datatype": graph(IN.replace("FP32", "INT64") + OUT),
    "onnx_dims": graph(IN.replace("[ 2 ]", "[ 3 ]") + OUT),
    "onnx_rank": graph(IN.replace("[ 2 ]", "[ 2, 2 ]") + OUT),
    "onnx_without_batches": graph(IN + OUT, FIXED),
    "onnx_completes_no_batches": graph("", FIXED),
    "onnx_several_at_once": graph(IN.replace("FP32", "INT64") + OUT.replace("[ 2 ]", "[ 3 ]")),
    "onnx_optional_input": graph(IN.replace("dims", "optional: true dims") + OUT),
    "onnx_weights_are_missing": graph(IN + OUT, _external()),
    "onnx_weights_elsewhere": graph(
        IN + OUT, _external("../../w.bin"), files={"../w.bin": b"\0" * 4}
    ),
    "onnx_weights_linked_elsewhere": graph(
        IN + OUT, _external(), files={"1/w.bin": link("/etc/hostname")}
    ),
    "onnx_sequence": graph(IN, _sequence()),
    "onnx_locale": graph("", _text_model("xx_XX.UTF-8"), head='backend: "onnxruntime"\n'),
    "onnx_unknown_operator": dataclasses.replace(
        graph(
            IN + OUT,
            helper.make_model(
                helper.make_graph(
                    [helper.make_node("Nonesuch", ["IN"], ["OUT"])],
                    "g",
                    [value("IN", ["N", 2])],
                    [value("OUT", ["N", 2])],
                ),
                ir_version=8,
            ),
        ),
        load=True,
    ),
    # code
    "code_syntax": python(code="def broken(:\n"),
    "code_indentation": python(code=" class TritonPythonModel:\npass\n"),
    "code_with_zeros": python(code=b"\0\0"),
    "code_in_another_encoding": python(code=b'TEXT = "\xff"\n'),
    "code_imports_nothing": python(code="import numpy\nimport nonesuch_package\n" + CODE),
    "code_imports_from_nothing": python(code="from nonesuch_package.part import x\n" + CODE),
    "code_without_class": python(code="class TritonModel:\n    pass\n"),
    "code_without_execute": python(code="class TritonPythonModel:\n    pass\n"),
    "code_of_another_suffix": python(
        'default_model_filename: "model.txt"\n', files={"1/model.txt": CODE}
    ),
    "code_raises": python(code="raise ValueError('no')\n" + CODE, load=True),
    "code_exits": python(code="raise SystemExit(3)\n" + CODE, load=True),
    "code_of_a_helper": python(
        code="import helper\n" + CODE, load=True, files={"1/helper.py": "import nonesuch_package\n"}
    ),
    "constructor_raises": python(code=CODE + "    def __init__(self):\n        1 / 0\n", load=True),
    "initialize_raises": python(
        code=CODE + "    def initialize(self, args):\n        raise OSError('no weights')\n",
        load=True,
    ),
    "initialize_misses_a_key": python(
        code=CODE + "    def initialize(self, args):\n        args['nothing']\n", load=True
    ),
    "completion_raises": completing("raise RuntimeError('no')"),
    "completion_returns_nothing": completing("config.set_max_batch_size(8)"),
    "completion_of_an_unknown_property": completing(
        "config.add_input({'name': 'A', 'data_type': 'TYPE_FP32', 'dims': [1], 'layout': 1}); return config"
    ),
    "completion_without_dims": completing(
        "config.add_output({'name': 'A', 'data_type': 'TYPE_FP32'}); return config"
    ),
    "completion_of_a_smaller_batch": completing("config.set_max_batch_size(2); return config"),
    "completion_of_an_unknown_datatype": completing(
        "config.add_input({'name': 'A', 'data_type': 'FLOAT', 'dims': [1]}); return config"
    ),
    "completion_of_a_zero_dimension": completing(
        "config.add_input({'name': 'A', 'data_type': 'TYPE_FP32', 'dims': [0]}); return config"
    ),
    # sequences
    "sequence_batching": sequences('name: "" control { int32_false_true: [ 0, 1 ] }'),
    "sequence_control_twice": sequences(
        'name: "S" control { int32_false_true: [ 0, 1 ] }',
        'name: "S" control { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] }',
    ),
    "sequence_kind_twice": sequences(
        'name: "S" control { int32_false_true: [ 0, 1 ] }',
        'name: "T" control { int32_false_true: [ 0, 1 ] }',
    ),
    "sequence_control_without_values": sequences('name: "S" control { }'),
    "sequence_control_of_two_types": sequences(
        'name: "S" control { int32_false_true: [ 0, 1 ] fp32_false_true: [ 0, 1 ] }'
    ),
    "sequence_control_of_one_value": sequences('name: "S" control { bool_false_true: true }'),
    "sequence_id_with_values": sequences(
        'name: "S" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 int32_false_true: [ 0, 1 ] }'
    ),
    "sequence_id_of_another_type": sequences(
        'name: "S" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32 }'
    ),
    "sequence_id_without_type": sequences('name: "S" control { kind: CONTROL_SEQUENCE_CORRID }'),
    "sequence_preferred_size_too_large": python(
        "sequence_batching { oldest { preferred_batch_size: 8 } }\n"
    ),
    "sequence_preferred_size_zero": python(
        "sequence_batching { oldest { preferred_batch_size: 0 } }\n"
    ),
    "sequence_utilization": python(
        "sequence_batching { direct { minimum_slot_utilization: 1.5 } }\n"
    ),
    "sequence_response_cache": python("sequence_batching { }\nresponse_cache { enable: true }\n"),
    "state_without_names": state("data_type: TYPE_FP32 dims: 2"),
    "state_without_data_type": state('input_name: "S" output_name: "T" dims: 2'),
    "state_that_is_an_input": state(STATE.replace('"S"', '"IN"')),
    "state_of_growable_memory": state(STATE + " use_growable_memory: true"),
    "state_of_another_type_than_its_output": state(
        STATE.replace('"T"', '"OUT"').replace("FP32", "INT8")
    ),
    "initial_state_without_data": state(
        STATE + ' initial_state { name: "i" data_type: TYPE_FP32 dims: 2 }'
    ),
    "initial_state_of_no_file": state(STATE + FROM_FILE),
    "initial_state_too_short": state(STATE + FROM_FILE, files={"initial_state/start": b"1234567"}),
    "initial_state_of_other_strings": state(
        (STATE + FROM_FILE).replace("FP32", "STRING"), files={"initial_state/start": b"\1\0\0\0a"}
    ),
    "onnx_control_that_is_missing": graph(
        IN + OUT + "sequence_batching { control_input { " + START + " } }\n"
    ),
    "onnx_state_that_is_missing": graph(
        IN + OUT + "sequence_batching { state { " + STATE + " } }\n"
    ),
    # ensembles
    "ensemble_without_steps": Broken(config='platform: "ensemble"\n' + IN + OUT, files={"1": None}),
    "ensemble_with_instances": ensemble("sequence_batching", more="instance_group { }\n"),
    "ensemble_of_a_model_that_is_not_there": ensemble("nowhere"),
    "ensemble_of_a_broken_model": ensemble("sequence_batching"),
    "ensemble_of_itself": ensemble("ensemble_of_itself"),
    "ensemble_whose_tensor_nothing_writes": ensemble("sequence_batching", reads="t"),
    "batch_input": python('batch_input { target_name: "B" source_input: "NO" }\n'),
    "batch_output": python('batch_output { target_name: "NO" source_input: "IN" }\n'),
    "batch_strategy_library": Broken(
        config=PYTHON + "dynamic_batching { }\n", files={"1/model.py": "", "batchstrategy.so": ""}
    ),
    "batch_strategy_without_a_class": Broken(
        config=PYTHON + "dynamic_batching { }\n",
        files={"1/model.py": "", "1/batchstrategy.py": "def include(): pass\n"},
    ),
    "batch_strategy_outside": python(
        'dynamic_batching { }\nparameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "../x.py" } }\n'
    ),
    "batch_input_of_two": python(
        'batch_input { target_name: "B" data_type: TYPE_INT32 source_input: [ "IN", "IN" ] }\n'
    ),
    "warmup_without_input": python('model_warmup { name: "w" batch_size: 1 }\n'),
    "warmup_of_too_many": python(
        'model_warmup { name: "w" batch_size: 99 inputs { key: "IN" value { data_type: TYPE_FP32 dims: 2 zero_data: true } } }\n'
    ),
    "warmup_of_another_shape": python(
        'model_warmup { name: "w" batch_size: 1 inputs { key: "IN" value { data_type: TYPE_INT8 dims: [ -1 ] } } }\n'
    ),
    "warmup_file_missing": python(
        'model_warmup { name: "w" batch_size: 1 inputs { key: "IN" value { data_type: TYPE_FP32 dims: 2 input_data_file: "x" } } }\n'
    ),
    "custom_batching": python(parameter("TRITON_BATCH_STRATEGY_PATH", "x")),
    "runtime": python('runtime: "other.so"\n'),
    "cache_of_a_decoupled_model": python(
        "response_cache { enable: true }\nmodel_transaction_policy { decoupled: true }\n"
    ),
    "metric_without_family": python("model_metrics { metric_control { } }\n"),
}
