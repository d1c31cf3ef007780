"""JPEG files to what the network takes. On the GPU with device="mixed" in the decoder, and kind: KIND_GPU in the config."""

from nvidia import dali
from nvidia.dali import fn, types
from nvidia.dali.plugin.triton import autoserialize


@autoserialize
@dali.pipeline_def(
    batch_size=32, num_threads=2, device_id=None, output_dtype=[types.FLOAT], output_ndim=[3]
)
def images():
    """The middle of each picture, its shorter side resized to 256, normalised, with the channels blue, green, red."""
    encoded = fn.external_source(device="cpu", name="JPEG", dtype=types.UINT8, ndim=1)
    decoded = fn.decoders.image(encoded, device="cpu", output_type=types.BGR)
    resized = fn.resize(
        decoded, resize_shorter=256, interp_type=types.INTERP_TRIANGULAR, antialias=True
    )
    return fn.crop_mirror_normalize(
        resized,
        crop=(224, 224),
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=[255 * 0.485, 255 * 0.456, 255 * 0.406],
        std=[255 * 0.229, 255 * 0.224, 255 * 0.225],
    )
