"""What can go wrong."""

from dataclasses import dataclass

import httpx
from pydantic import ValidationError

from .models import Problem


class WeirError(Exception):
    """Everything that this package raises on its own account."""


class ConfigError(WeirError):
    """A context, a key or an argument is of no use."""


class UnreachableError(WeirError):
    """The server cannot be reached, or the connection ended."""


class AnswerError(WeirError):
    """The server answered what its interface does not say: another program, or another version."""


@dataclass
class ApiError(WeirError):
    """The server refused; `problem` is its document (RFC 9457)."""

    problem: Problem

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status

    def __str__(self) -> str:
        lines = [self.problem.detail]
        for mistake in self.problem.errors or []:
            place = f"{mistake.path}: " if mistake.path else ""
            line = f"line {mistake.line}: " if mistake.line else ""
            remedy = f"; {mistake.help}" if mistake.help else ""
            lines.append(f"  {line}{place}{mistake.message}{remedy}")
        return "\n".join(lines)


class RefusedError(ApiError):
    """400, 405, 413, 415, 422: the request or the document has mistakes."""


class LoginError(ApiError):
    """401: there is no login, or a wrong one."""


class ForbiddenError(ApiError):
    """403: who asks may not."""


class NotFoundError(ApiError):
    """404: there is no such thing."""


class ConflictError(ApiError):
    """409, 412: it does not fit what is there."""


class BusyError(ApiError):
    """429, 503: later."""


class ServerError(ApiError):
    """500 and above."""


KINDS: dict[int, type[ApiError]] = {
    401: LoginError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    412: ConflictError,
    429: BusyError,
    503: BusyError,
}


def of_response(response: httpx.Response) -> WeirError:
    """The error of an answer that is none of success, and that was read."""
    status = response.status_code
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        text = response.text[:200]
        return AnswerError(f"{response.request.url} answered {status} without a problem document: {text!r}")
    kind = KINDS.get(status, ServerError if status >= 500 else RefusedError)
    return kind(problem)
