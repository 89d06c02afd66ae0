"""agentd's files -> agents and schedules in our own keys, each value still in its own place."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from herdbeat.codes import Code
from herdbeat.config.agentd_source import translate_source
from herdbeat.config.files import FileReader
from herdbeat.config.keys.agentd import AGENTD_AGENT, AGENTD_WORKFLOW, DOCKER_NETWORKS
from herdbeat.config.places import resolve_relative_path
from herdbeat.config.report import Diagnostics
from herdbeat.config.tables import Table
from herdbeat.errors import SourceLocation
from herdbeat.located import ConfigNode

_UNCHANGED_KEYS = ("name", "system_prompt", "model", "env", "tool_policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentdWorkflow:
    """One workflow, translated: the agent it is for, and its schedule in our keys.

    A refused one has no prompt; it is still looked through for more.
    """

    name: ConfigNode
    agent: ConfigNode
    schedule: ConfigNode
    is_invalid: bool = False


@dataclass(slots=True)
class AgentdReader:
    """Reads one .agentd folder, or one file of it."""

    files: FileReader
    diagnostics: Diagnostics

    def agents(self, folder: Path) -> Iterator[tuple[Path, ConfigNode]]:
        """Every agent of the folder that can be used, with its file."""
        for file in self._list_yaml_files(folder / "agents"):
            node = self.agent(file, folder.parent)
            if node is not None:
                yield file, node
        for file in self._list_yaml_files(folder / "rooms")[:1]:
            location = SourceLocation(file=self.files.display_name(file), line=1, column=1)
            self.diagnostics.warning(Code.NOT_SERVED, "Rooms have no effect: there are none here.", location)

    def workflows(self, folder: Path) -> Iterator[AgentdWorkflow]:
        """Every workflow of the folder that can be used."""
        found = (self.workflow(file) for file in self._list_yaml_files(folder / "workflows"))
        yield from (workflow for workflow in found if workflow is not None)

    def agent(self, file: Path, root: Path) -> ConfigNode | None:
        """One agent file in our keys. `root` is what its working_dir "." means: the folder around .agentd."""
        tree = self._load_valid(file, AGENTD_AGENT)
        if tree is None:
            return None
        keys = {name: child for name, child in tree.items() if name in _UNCHANGED_KEYS}
        keys["working_directory"] = _translate_working_directory(tree, root, file)
        prompt_file = tree.child("system_prompt_file")
        if prompt_file is not None and "system_prompt" not in keys:
            text = self._load_text(prompt_file, file)
            if text is None:
                return None
            keys["system_prompt"] = text
        return replace(tree, value=keys | _translate_docker(tree))

    def workflow(self, file: Path) -> AgentdWorkflow | None:
        """One workflow file in our keys; None after it was said why it cannot be served."""
        tree = self._load_valid(file, AGENTD_WORKFLOW)
        if tree is None:
            return None
        keys = translate_source(tree, self.diagnostics)
        prompt = self._load_prompt(tree, file)
        if keys is None:
            return None
        keys |= {"prompt": prompt} if prompt is not None else {}
        keys |= {each: child for each, child in tree.items() if each in ("enabled", "tool_policy")}
        name = tree.find(("name",))
        return AgentdWorkflow(
            name=name,
            agent=tree.find(("agent",)),
            schedule=ConfigNode(keys, tree.location, key=name.location),
            is_invalid=prompt is None,
        )

    def _list_yaml_files(self, folder: Path) -> list[Path]:
        self.diagnostics.folders.add(self.files.display_name(folder))
        try:
            return sorted(file for file in folder.iterdir() if file.suffix in (".yml", ".yaml") and file.is_file())
        except FileNotFoundError:
            return []
        except OSError as error:
            # To go on as if it were empty would drop schedules without a word.
            display_name = self.files.display_name(folder)
            message = f'"{display_name}" cannot be read: {error.strerror}.'
            location = SourceLocation(file=display_name, line=1, column=1)
            self.diagnostics.error(Code.UNREADABLE_FILE, message, location, "Mend its permissions.")
            return []

    def _load_valid(self, file: Path, table: Table) -> ConfigNode | None:
        tree = self.files.tree(file, is_foreign=True)
        errors_before = self.diagnostics.error_count
        if tree is not None:
            table.validate(tree, self.diagnostics)
        return None if self.diagnostics.error_count > errors_before or self.files.is_broken(file) else tree

    def _load_prompt(self, tree: ConfigNode, file: Path) -> ConfigNode | None:
        inline = tree.child("prompt_template")
        if inline is not None:
            return inline
        named = tree.child("prompt_template_file")
        if named is not None:
            return self._load_text(named, file)
        hint = "Add prompt_template, or prompt_template_file."
        self.diagnostics.error(Code.MISSING_KEY, "The workflow has no prompt.", tree.location, hint)
        return None

    def _load_text(self, named: ConfigNode, file: Path) -> ConfigNode | None:
        path = resolve_relative_path(file, str(named.value))
        text = self.files.text(path, named.location)
        if text is None:
            return None
        location = SourceLocation(file=self.files.display_name(path), line=1, column=1, path=named.location.path)
        self.diagnostics.foreign_files.add(location.file)
        return ConfigNode(text, location, named.key, style="file")


def _translate_working_directory(tree: ConfigNode, root: Path, file: Path) -> ConfigNode:
    """ "." is where agentd was called, which is the folder around .agentd; all else counts from the file."""
    written = tree.child("working_dir")
    if written is not None and written.value != ".":
        return written
    return ConfigNode(os.path.relpath(root, file.parent), written.location if written is not None else tree.location)


def _translate_docker(tree: ConfigNode) -> dict[str, ConfigNode]:
    """Whoever asks for an image, a network or mounts gets a container, or no run: never less isolation."""
    image, network = tree.child("docker_image"), tree.child("network_policy")
    mounts = tree.child("extra_mounts")
    isolation = image or network or mounts
    if isolation is None:
        return {}
    block = {"enabled": ConfigNode(value=True, location=isolation.location, raw="true")}
    if image is not None:
        block["image"] = image
    if network is not None:
        block["network"] = replace(network, value=DOCKER_NETWORKS.get(str(network.value), network.value))
    if mounts is not None:
        block["volumes"] = mounts
    return {"docker": ConfigNode(block, isolation.location, isolation.key)}
