"""What serving asks of the interpreter: which build it is, and its settings of garbage collector and switch interval.

The settings are process-wide, so only this module changes them.
"""

import gc
import sys

_SWITCH_INTERVAL_SECONDS = 0.001
"""How long one thread may hold the interpreter lock while another one waits for it. With Python's 5 ms, a model that computes in Python delays
the event loop by 5 ms each time; with 1 ms the loop's p99 beside such a model was a tenth, and the model a few percent slower."""

_YOUNG_OBJECTS = 50_000
"""Objects created between two collections of the youngest generation. A request creates about thirty, and reference counts free nearly all of
them at once; with Python's 700 every other request would cause a collection."""


def is_free_threaded() -> bool:
    """Whether this is a build without the interpreter lock. Data that two threads share relies on the lock."""
    return "t" in sys.abiflags


def is_optimized() -> bool:
    """Whether this build had the compiler's optimization by profiles, without which Python code, also that of models, runs a third slower.

    Distributions have it in theirs, and do not always say so; other builds name it in what `configure` was given.
    """
    if sys.base_prefix == "/usr":
        return True
    import sysconfig  # noqa: PLC0415  milliseconds of each start, for builds that need a look

    return "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")


def begin() -> None:
    """Turn the collector off; call before any large import: nearly all objects of an import stay, and the collector would visit them repeatedly."""
    gc.disable()


def imported() -> None:
    """Turn the collector on; call once the server's modules and those of its protocols are imported, before the first model is loaded.

    That shortens the start.
    """
    exempt()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
    gc.enable()


def exempt() -> None:
    """Exempt the objects that exist now from collections, for as long as the process lives; call after large imports, while no model is loaded.

    The little garbage among them (800 objects) stays.
    """
    gc.freeze()


def settle() -> None:
    """Collect once, so that what remains is in the oldest generation; call once the models are loaded, since such objects live long.

    The models' objects are not exempted: they must be found when a model is unloaded, and to end the exemption for them would end it for the
    imports too.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    gc.collect()
