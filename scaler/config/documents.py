"""YAML as a strict reader reads it: a key given twice is a fault, and lines are known."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

LARGEST_FILE = 4 * 2**20
"""Characters. A ConfigMap holds a quarter of that."""


_QUOTED = re.compile(r"'(?!<)[^']*'")


class YamlInvalid(ValueError):
    """The text is not YAML that can be used; `line` counts from 1 where it is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.problem = message
        self.line = line


class _Loader(yaml.SafeLoader):
    """Loads plain values, and refuses a mapping with one key twice."""

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, object]:  # noqa: FBT001, FBT002 - the library's signature
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node.value, str) else None
            if key is not None and key != "<<":
                if key in seen:
                    raise YamlInvalid(f"{key[:60]} is given twice", key_node.start_mark.line + 1)
                seen.add(key)
        return super().construct_mapping(node, deep=deep)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One YAML document: its value, and where each part of it stands."""

    index: int
    value: object
    root: Node

    def line(self, *path: str | int) -> int:
        """Return the line of a part, or of the nearest part around it that exists."""
        node, line = self.root, self.root.start_mark.line + 1
        for step in path:
            found = _child(node, step)
            if found is None:
                return line
            line, node = found
        return line


def _child(node: Node, step: str | int) -> tuple[int, Node] | None:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if key.value == step:
                return key.start_mark.line + 1, value
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line + 1, node.value[step]
    return None


def read_documents(text: str) -> Iterator[Document]:
    """Yield the documents that hold anything. Raises YamlInvalid when it comes to a faulty one."""
    if len(text) > LARGEST_FILE:
        raise YamlInvalid(f"the file has more than {LARGEST_FILE} characters")
    try:
        loader = _Loader(text)
    except yaml.YAMLError as error:
        raise _invalid(error) from error
    index = 0
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                return
            value: object = loader.construct_document(node)
            if value is not None:
                yield Document(index=index, value=value, root=node)
            index += 1
    except yaml.YAMLError as error:
        raise _invalid(error) from error
    except RecursionError as error:
        raise YamlInvalid("the document is nested too deeply") from error
    except YamlInvalid:
        raise
    except (ValueError, OverflowError) as error:
        raise YamlInvalid("a number or a date in it does not exist") from error
    finally:
        loader.dispose()


def _invalid(error: yaml.YAMLError) -> YamlInvalid:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        # Not the library's own text as it is: it quotes the line, which may hold a secret.
        problem = _QUOTED.sub("what stands here", str(error.problem or error.context))
        return YamlInvalid(f"not valid YAML: {problem}", error.problem_mark.line + 1)
    return YamlInvalid("not valid YAML: it holds characters that YAML does not allow")
