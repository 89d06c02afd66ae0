from scripts.trace_path import SOURCE, traced_files


def test_the_path_of_a_command_is_the_files_it_calls() -> None:
    files = traced_files("validate")

    assert 20 < len(files) < 100
    assert [each for each in files if not (SOURCE / each).is_file()] == []
    assert "durations.py" in files  # called
    assert "clock.py" not in files  # only imported
