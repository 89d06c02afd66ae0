"""What a transaction is going to ask, asked as soon as it can be: the answers then come along with another one."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from herdbeat.store.postgres.statements import PostgresStatements, Sent


class _Asked(NamedTuple):
    about: frozenset[int]
    sent: Sent
    after: int


class Foresight:
    """For one transaction. What was not foreseen is asked in the usual way, and so is what was written over since."""

    def __init__(self, statements: PostgresStatements) -> None:
        self._statements = statements
        self._numbers: Sent | None = None
        self._beats: list[int] = []
        self._runs: list[int] = []
        self._asked: dict[str, _Asked] = {}

    # ── numbers for new rows, which nobody else will ever have ──

    def need_numbers(self, number: int) -> None:
        """So many beats may begin, each with a run. Those that do not leave a gap in the numbers."""
        self._numbers = self._statements.ahead("both_numbers", number=number)

    def beats(self, number: int) -> list[int]:
        self._read_numbers()
        taken, self._beats = self._beats[:number], self._beats[number:]
        return taken + self._missing("beat_numbers", number - len(taken))

    def runs(self, number: int) -> list[int]:
        self._read_numbers()
        taken, self._runs = self._runs[:number], self._runs[number:]
        return taken + self._missing("run_numbers", number - len(taken))

    def _read_numbers(self) -> None:
        if self._numbers is not None:
            found = self._statements.answer(self._numbers)
            self._beats, self._runs = [beat for beat, _ in found], [run for _, run in found]
            self._numbers = None

    def _missing(self, question: str, number: int) -> list[int]:
        return list(self._statements.ask(question, number=number)) if number else []

    # ── questions ──

    def ask(self, question: str, about: Iterable[int], **values: object) -> None:
        wanted = frozenset(about)
        if wanted:
            self.keep(question, wanted, self._statements.ahead(question, wanted, **values))

    def keep(self, question: str, about: Iterable[int], sent: Sent) -> None:
        """Under the name of a question whose answer this is."""
        self._asked[question] = _Asked(frozenset(about), sent, self._statements.told)

    def answer(self, question: str, about: Iterable[int] = ()) -> Any:
        """None if just this was not foreseen, or something was written since."""
        asked = self._asked.pop(question, None)
        if asked is None or asked.about != frozenset(about) or asked.after != self._statements.told:
            return None
        return self._statements.answer(asked.sent)
