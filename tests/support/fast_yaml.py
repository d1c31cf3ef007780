"""Reads the manifests of tests as the operator does, with libyaml's parser: rendering the chart and all examples is much YAML.

Where a text is wrong, it says so in libyaml's words: what the operator says is tested on its own reader.
"""

import typing

from yaml.constructor import SafeConstructor
from yaml.cyaml import CParser  # type: ignore[attr-defined]  # its types leave it out
from yaml.resolver import Resolver

from naiad_operator.api.manifests import yaml_text


class _Loader(CParser, yaml_text.Loader):
    """The operator's rules on the nodes that libyaml makes."""

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        SafeConstructor.__init__(self)
        Resolver.__init__(self)


def read(text: str) -> list[typing.Any]:
    """Every non-empty document.

    Raises:
        yaml.YAMLError: the text is not valid YAML.
    """
    loader = _Loader(text)
    found = []
    while loader.check_node():
        node = loader.get_node()
        assert node is not None
        found.append(loader.construct_document(node))
    return [document for document in found if document is not None]
