"""The command `naiad-operator convert`: turns InferenceServices of KServe and plain Deployments of Triton into Naiad's, and lists what does not fit.

A field is moved or it is listed: what no rule takes out of a manifest is reported with its path. Without a cluster.
"""

from naiad_operator.convert.command import add_options, run
from naiad_operator.convert.kserve.service import is_kserve
from naiad_operator.convert.not_converted import title
from naiad_operator.convert.workload import server_container

__all__ = ["add_options", "is_kserve", "run", "server_container", "title"]
