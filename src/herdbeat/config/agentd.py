"""agentd's files -> agents and schedules in our own keys, each value still in its own place."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from herdbeat.codes import Code
from herdbeat.config.agentd_source import schedule_keys
from herdbeat.config.files import Files
from herdbeat.config.keys.agentd import AGENT, NETWORKS, WORKFLOW
from herdbeat.config.places import beside
from herdbeat.config.report import Report
from herdbeat.config.tables import Table
from herdbeat.errors import Place
from herdbeat.located import Located

_SAME_NAMES = ("name", "system_prompt", "model", "env", "tool_policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """One workflow, translated: the agent it is for, and its schedule in our keys.

    A refused one has no prompt; it is still looked through for more.
    """

    name: Located
    agent: Located
    schedule: Located
    is_refused: bool = False


@dataclass(slots=True)
class AgentdReader:
    """Reads one .agentd folder, or one file of it."""

    files: Files
    report: Report

    def agents(self, folder: Path) -> Iterator[tuple[Path, Located]]:
        """Every agent of the folder that can be used, with its file."""
        for file in self._yaml_files(folder / "agents"):
            node = self.agent(file, folder.parent)
            if node is not None:
                yield file, node
        for file in self._yaml_files(folder / "rooms")[:1]:
            place = Place(file=self.files.shown(file), line=1, column=1)
            self.report.warning(Code.NOT_SERVED, "Rooms have no effect: there are none here.", place)

    def workflows(self, folder: Path) -> Iterator[Workflow]:
        """Every workflow of the folder that can be used."""
        found = (self.workflow(file) for file in self._yaml_files(folder / "workflows"))
        yield from (workflow for workflow in found if workflow is not None)

    def agent(self, file: Path, root: Path) -> Located | None:
        """One agent file in our keys. `root` is what its working_dir "." means: the folder around .agentd."""
        tree = self._checked(file, AGENT)
        if tree is None:
            return None
        keys = {name: child for name, child in tree.items() if name in _SAME_NAMES}
        keys["working_directory"] = _working_directory(tree, root, file)
        prompt_file = tree.child("system_prompt_file")
        if prompt_file is not None and "system_prompt" not in keys:
            text = self._text_of(prompt_file, file)
            if text is None:
                return None
            keys["system_prompt"] = text
        return replace(tree, value=keys | _docker(tree))

    def workflow(self, file: Path) -> Workflow | None:
        """One workflow file in our keys; None after it was said why it cannot be served."""
        tree = self._checked(file, WORKFLOW)
        if tree is None:
            return None
        keys = schedule_keys(tree, self.report)
        prompt = self._prompt(tree, file)
        if keys is None:
            return None
        keys |= {"prompt": prompt} if prompt is not None else {}
        keys |= {each: child for each, child in tree.items() if each in ("enabled", "tool_policy")}
        name = tree.find(("name",))
        return Workflow(
            name=name,
            agent=tree.find(("agent",)),
            schedule=Located(keys, tree.place, key=name.place),
            is_refused=prompt is None,
        )

    def _yaml_files(self, folder: Path) -> list[Path]:
        self.report.folders.add(self.files.shown(folder))
        try:
            return sorted(file for file in folder.iterdir() if file.suffix in (".yml", ".yaml") and file.is_file())
        except FileNotFoundError:
            return []
        except OSError as error:
            # To go on as if it were empty would drop schedules without a word.
            shown = self.files.shown(folder)
            message = f'"{shown}" cannot be read: {error.strerror}.'
            place = Place(file=shown, line=1, column=1)
            self.report.error(Code.UNREADABLE_FILE, message, place, "Mend its permissions.")
            return []

    def _checked(self, file: Path, table: Table) -> Located | None:
        tree = self.files.tree(file, is_foreign=True)
        mark = self.report.errors
        if tree is not None:
            table.check(tree, self.report)
        return None if self.report.errors > mark or self.files.is_broken(file) else tree

    def _prompt(self, tree: Located, file: Path) -> Located | None:
        inline = tree.child("prompt_template")
        if inline is not None:
            return inline
        named = tree.child("prompt_template_file")
        if named is not None:
            return self._text_of(named, file)
        hint = "Add prompt_template, or prompt_template_file."
        self.report.error(Code.MISSING_KEY, "The workflow has no prompt.", tree.place, hint)
        return None

    def _text_of(self, named: Located, file: Path) -> Located | None:
        path = beside(file, str(named.value))
        text = self.files.text(path, named.place)
        if text is None:
            return None
        place = Place(file=self.files.shown(path), line=1, column=1, path=named.place.path)
        self.report.foreign.add(place.file)
        return Located(text, place, named.key, style="file")


def _working_directory(tree: Located, root: Path, file: Path) -> Located:
    """ "." is where agentd was called, which is the folder around .agentd; all else counts from the file."""
    written = tree.child("working_dir")
    if written is not None and written.value != ".":
        return written
    return Located(os.path.relpath(root, file.parent), written.place if written is not None else tree.place)


def _docker(tree: Located) -> dict[str, Located]:
    """Whoever asks for an image, a network or mounts gets a container, or no run: never less isolation."""
    image, network = tree.child("docker_image"), tree.child("network_policy")
    mounts = tree.child("extra_mounts")
    asked = image or network or mounts
    if asked is None:
        return {}
    block = {"enabled": Located(value=True, place=asked.place, written="true")}
    if image is not None:
        block["image"] = image
    if network is not None:
        block["network"] = replace(network, value=NETWORKS.get(str(network.value), network.value))
    if mounts is not None:
        block["volumes"] = mounts
    return {"docker": Located(block, asked.place, asked.key)}
