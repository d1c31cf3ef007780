"""JPEG files to RGB images of 64 x 64, as decode_by_dali makes them."""

import io

import numpy as np
import triton_python_backend_utils as pb_utils
from PIL import Image


class TritonPythonModel:
    """An image for each file."""

    def execute(self, requests):
        """Respond to each request; to one whose file cannot be decoded with Pillow's reason."""
        responses = []
        for request in requests:
            files = pb_utils.get_input_tensor_by_name(request, "JPEG").as_numpy()
            try:
                images = np.stack([decoded(file) for file in files])
            except OSError as error:
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))))
            else:
                responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("IMAGE", images)]))
        return responses


def decoded(file):
    """The image in the bytes of a file."""
    image = Image.open(io.BytesIO(file.tobytes())).convert("RGB")
    return np.asarray(image.resize((64, 64), Image.Resampling.BILINEAR))
