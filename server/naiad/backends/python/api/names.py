"""Under which names models import the API.

In Triton `c_python_backend_utils` is the module behind `triton_python_backend_utils`, from which some models take types: here it has the
same objects, and `shared_memory`, by which Triton tests its pool. There is no pool, so what is free of it never changes.
"""

import types

from naiad.backends.python.api import triton_python_backend_utils


class SharedMemory:
    """A pool of no size."""

    __slots__ = ()

    def free_memory(self) -> int:
        """The number of unused bytes in it."""
        return 0


c_python_backend_utils = types.ModuleType("c_python_backend_utils")
vars(c_python_backend_utils).update(
    {
        name: getattr(triton_python_backend_utils, name)
        for name in triton_python_backend_utils.__all__
    },
    shared_memory=SharedMemory(),
)

UTILS: "dict[str, types.ModuleType]" = {
    "triton_python_backend_utils": triton_python_backend_utils,
    "c_python_backend_utils": c_python_backend_utils,
}
"""What a host puts into `sys.modules`."""
