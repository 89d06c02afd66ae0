from pathlib import Path

import pytest

from herdbeat.config.diagnostics import ValidationError
from herdbeat.config.files import MAX_FILE_BYTES, read_text
from herdbeat.error_codes import Code


def code_of(path: Path) -> tuple[Code, int, int]:
    with pytest.raises(ValidationError) as caught:
        read_text(path, path.name)
    where = caught.value.where
    assert where is not None
    return caught.value.problem_code, where.line, where.column


def test_a_byte_order_mark_and_windows_line_ends_are_removed(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")

    assert read_text(file, "a.yaml") == "a: 1\nb: 2\n"


def test_the_largest_file_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"#" * MAX_FILE_BYTES)
    assert len(read_text(file, "a.yaml")) == MAX_FILE_BYTES

    file.write_bytes(b"#" * (MAX_FILE_BYTES + 1))

    assert code_of(file) == (Code.YAML_LIMIT, 1, 1)


def test_bytes_that_are_not_utf_8_are_reported_with_their_location(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes("a: 1\nb: é".encode("latin-1"))

    assert code_of(file) == (Code.UNREADABLE_FILE, 2, 4)


def test_a_control_character_is_reported_with_its_location(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"a: 1\n  \x07")

    assert code_of(file) == (Code.YAML_SYNTAX, 2, 3)


def test_a_missing_file_and_a_folder_have_different_messages(tmp_path: Path) -> None:
    assert code_of(tmp_path / "nowhere.yaml")[0] is Code.FILE_NOT_FOUND
    assert code_of(tmp_path)[0] is Code.UNREADABLE_FILE


def test_a_broken_link_is_reported_as_one(tmp_path: Path) -> None:
    link = tmp_path / "a.yaml"
    link.symlink_to("nowhere.yaml")

    with pytest.raises(ValidationError, match="is a broken symbolic link"):
        read_text(link, "a.yaml")
