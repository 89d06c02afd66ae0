import pytest
from tests.support.config_folder import ConfigFolder

from herdbeat.config.locate import FileKind

FILES = [
    ("herdbeat.yaml", "version: 1", FileKind.FLEET),
    ("prod.yaml", "agents: []", FileKind.FLEET),
    ("prod.yaml", "nothing: known", FileKind.FLEET),
    ("herdctl.yml", "agents: []", FileKind.HERDCTL_FLEET),
    ("agents/triage.yaml", "{ name: triage, model: x }", FileKind.HERDCTL_AGENT),
    ("w.yml", "{ name: w, agent: a, source: { type: manual }, prompt_template: x }", FileKind.AGENTD_WORKFLOW),
    (".agentd/workflows/w.yml", "name: w", FileKind.AGENTD_WORKFLOW),
    ("a.yml", "{ name: a, working_dir: '.' }", FileKind.AGENTD_AGENT),
    (".agentd/agents/a.yml", "name: a", FileKind.AGENTD_AGENT),
]


@pytest.mark.parametrize(("name", "text", "kind"), FILES)
def test_a_file_is_known_by_its_name_or_its_keys(name: str, text: str, kind: FileKind, folder: ConfigFolder) -> None:
    assert folder.read({name: text}, name).kind is kind


def test_a_folder_is_what_lies_in_it(folder: ConfigFolder) -> None:
    folder.write({".agentd/agents/a.yml": "name: a"})
    assert folder.read({}).kind is FileKind.AGENTD_FOLDER
    assert folder.read({}, ".agentd").kind is FileKind.AGENTD_FOLDER

    assert folder.read({"herdctl.yaml": "agents: []"}).kind is FileKind.HERDCTL_FLEET
    assert folder.read({"herdbeat.yaml": "agents: []"}).kind is FileKind.FLEET
