"""Server-sent events (WHATWG HTML, section 9.2), line by line."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Message:
    """One event of a stream."""

    event: str
    data: str
    id: str | None


@dataclass
class Parser:
    """Takes the lines of a stream, and gives a message at the end of each."""

    last_id: str | None = None
    _event: str = ""
    _data: list[str] = field(default_factory=list)

    def line(self, line: str) -> Message | None:
        """Takes a line without its end."""
        if line == "":
            message = Message(self._event or "message", "\n".join(self._data), self.last_id) if self._data else None
            self._event, self._data = "", []
            return message
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self.last_id = value
        return None
