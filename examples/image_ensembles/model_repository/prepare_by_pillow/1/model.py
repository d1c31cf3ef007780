"""JPEG files to what the network takes, as prepare_by_dali makes it."""

import io

import numpy as np
import triton_python_backend_utils as pb_utils
from PIL import Image

SHORTER, SIDE = 256, 224
MEAN = 255 * np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = 255 * np.array([0.229, 0.224, 0.225], np.float32)


class TritonPythonModel:
    """An image for each file."""

    def execute(self, requests):
        """Respond to each request; to one whose file cannot be decoded with Pillow's reason."""
        responses = []
        for request in requests:
            files = pb_utils.get_input_tensor_by_name(request, "JPEG").as_numpy()
            try:
                images = np.stack([prepared(file) for file in files])
            except OSError as error:
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))))
            else:
                responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("IMAGE", images)]))
        return responses


def prepared(file):
    """The middle of the picture in the bytes of a file, its shorter side resized to 256, normalised, with the channels blue, green, red."""
    image = Image.open(io.BytesIO(file.tobytes())).convert("RGB")
    scale = SHORTER / min(image.size)
    size = tuple(round(side * scale) for side in image.size)
    resized = image.resize(size, Image.Resampling.BILINEAR)
    left, upper = ((side - SIDE) // 2 for side in size)
    pixels = np.asarray(resized, np.float32)[upper : upper + SIDE, left : left + SIDE, ::-1]
    return ((pixels - MEAN) / DEVIATION).transpose(2, 0, 1)
