"""`cron` triggers: an expression that is due at wall-clock times of a zone."""

from herdbeat.triggers.cron.describe import DstNote, DstNoteKind
from herdbeat.triggers.cron.trigger import Cron

__all__ = ["Cron", "DstNote", "DstNoteKind"]
