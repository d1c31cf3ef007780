"""Triton's backends that this server cannot run yet: known by name, so that messages and completed configs say what a model is for."""

from naiad.config.backend_type import BackendType, Form, ModelFormat

TENSORFLOW = BackendType(
    name="tensorflow",
    supported=False,
    missing_file="",
    cpu_instances=2,
    formats=(
        ModelFormat(
            filename="model.savedmodel", platform="tensorflow_savedmodel", form=Form.FOLDER
        ),
        ModelFormat(filename="model.graphdef", platform="tensorflow_graphdef"),
    ),
)
TENSORRT = BackendType(
    name="tensorrt",
    supported=False,
    missing_file="",
    has_profiles=True,
    has_files_per_gpu=True,
    formats=(ModelFormat(filename="model.plan", platform="tensorrt_plan"),),
)
OPENVINO = BackendType(
    name="openvino",
    supported=False,
    missing_file="",
    formats=(ModelFormat(filename="model.xml", form=Form.EITHER),),
)
PYTORCH = BackendType(
    name="pytorch",
    supported=False,
    missing_file="",
    has_files_per_gpu=True,
    formats=(
        ModelFormat(filename="model.pt", platform="pytorch_libtorch", aliases=("libtorch",)),
        ModelFormat(filename="model.pt2", platform="torch_aoti"),
    ),
)
