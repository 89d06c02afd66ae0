"""What people call a schedule. Apart from the schedule itself, since a shell that completes a name needs no more."""

DEFAULT_SCHEDULE_NAME = "default"
"""The name of the schedule that is written right beside its target."""


def display_name(target: str, name: str) -> str:
    """`target/name`; the target alone is enough for a schedule written beside its name."""
    return target if name == DEFAULT_SCHEDULE_NAME else f"{target}/{name}"
