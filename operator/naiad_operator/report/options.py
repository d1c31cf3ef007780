"""The options of `naiad-operator report`. It imports neither the client nor aiohttp, so that other commands start quickly."""

import argparse


def add_to(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-n",
        "--namespace",
        default="",
        help="the namespace of the services; else that of the kubeconfig's context",
    )
    where.add_argument(
        "-A", "--all-namespaces", action="store_true", help="services of all namespaces"
    )
    parser.add_argument("--service", default="", metavar="NAME", help="only this service")
    parser.add_argument(
        "-o",
        "--output",
        default="",
        metavar="FILE",
        help="the archive, - for standard output; else naiad-report-<time>.tar.gz here",
    )
    parser.add_argument(
        "--operator-namespace",
        default="naiad-system",
        metavar="NAMESPACE",
        help="where the operator is, if you may not list Deployments in all namespaces (default: %(default)s)",
    )
    parser.add_argument(
        "--log-lines",
        type=_positive,
        default=1000,
        metavar="NUMBER",
        help="the last lines of each log, 512 KiB at most (default: %(default)s)",
    )
    parser.add_argument(
        "--max-pods",
        type=_positive,
        default=100,
        metavar="NUMBER",
        help="read the logs of this many pods, those that are not ready first (default: %(default)s)",
    )
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="else the pod's service account, $KUBECONFIG or ~/.kube/config")  # fmt: skip
    parser.add_argument("--context", default="", help="a context of it; else the current one")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return number
