"""`cron`: at the times that an expression names, on the wall clock of a zone."""

from herdbeat.triggers.cron.diagnostics import DstNote, DstNoteKind
from herdbeat.triggers.cron.trigger import Cron

__all__ = ["Cron", "DstNote", "DstNoteKind"]
