"""The last so many bytes of a stream, at a flat price however long it is."""

from collections import deque


class TailBuffer:
    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self.total = 0

    def append(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self._chunks.append(chunk[-self._cap :])
        self._size += len(self._chunks[-1])
        while self._size - len(self._chunks[0]) >= self._cap:
            self._size -= len(self._chunks.popleft())

    def text(self) -> str:
        """What is kept, as text. What is not UTF-8 is replaced, and so is NUL, which no database takes."""
        kept = b"".join(self._chunks)[-self._cap :]
        if self.total > len(kept):
            kept = kept.lstrip(bytes(range(0x80, 0xC0)))  # the rest of a letter that was cut through
        return kept.decode("utf-8", "replace").replace("\0", "\ufffd")

    def last_line(self) -> str:
        """The last line that says something; empty if none does."""
        return self.text().rstrip().rpartition("\n")[2].strip()
