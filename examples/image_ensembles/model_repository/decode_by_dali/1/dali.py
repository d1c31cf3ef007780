"""JPEG files to RGB images of 64 x 64. On the GPU with device="mixed" in the decoder, and kind: KIND_GPU in the config."""

from nvidia import dali
from nvidia.dali import fn, types
from nvidia.dali.plugin.triton import autoserialize


@autoserialize
@dali.pipeline_def(
    batch_size=32, num_threads=2, device_id=None, output_dtype=[types.UINT8], output_ndim=[3]
)
def images():
    """What is served: the one pipeline that is marked."""
    encoded = fn.external_source(device="cpu", name="JPEG", dtype=types.UINT8, ndim=1)
    decoded = fn.decoders.image(encoded, device="cpu")
    return fn.resize(
        decoded, resize_x=64, resize_y=64, interp_type=types.INTERP_TRIANGULAR, antialias=True
    )
