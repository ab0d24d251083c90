"""Requests for resources, answered: the same over HTTP by `stepscope view` and in TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson

from stepscope.errors import StepscopeError, UnreadableFileError
from stepscope.metadata.readable import writable
from stepscope.web import perfetto
from stepscope.web.frames import as_json, encoded
from stepscope.web.recordings import NoSuchRunError
from stepscope.web.resources import RESOURCES, answer
from stepscope.web.resources.asked import Asked, CannotAnswerError, WrongParameterError

if TYPE_CHECKING:
    from stepscope.web.recordings import Recordings

__all__ = ["FRAME", "JSON", "Answer", "answered", "failed"]

FRAME: Final = "application/x-stepscope"
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def failed(status: int, what: str, todo: str = "") -> Answer:
    """An error, as pages read it."""
    error = {"error": {"what": writable(what), "todo": writable(todo)}}
    return Answer(status, JSON, orjson.dumps(error))


def answered(
    recordings: Recordings, name: str, parameters: Mapping[str, str], **told: Any
) -> Answer:
    """A resource as it is sent, or why not; `told` takes the place of what `session` says."""
    given = dict(parameters)
    form = given.pop("format", "")
    try:
        if name == perfetto.TRACE:
            with recordings.lock:
                body = perfetto.trace(recordings, Asked(given))
            return Answer(HTTPStatus.OK, JSON, body, {"Content-Encoding": "gzip"})
        if name == perfetto.WHERE:
            value: Any = perfetto.where()
        elif name in RESOURCES:
            value = answer(recordings, name, given)
            if name == "session":
                value = {**value, **told}
        else:
            return failed(HTTPStatus.NOT_FOUND, f"there is no resource {name[:100]!r}")
    except WrongParameterError as error:
        return failed(HTTPStatus.BAD_REQUEST, str(error))
    except NoSuchRunError as error:
        return failed(HTTPStatus.NOT_FOUND, str(error))
    except CannotAnswerError as error:
        return failed(HTTPStatus.UNPROCESSABLE_ENTITY, str(error), error.todo)
    except UnreadableFileError as error:
        gone = recordings.state[0] == "gone"
        status = HTTPStatus.GONE if gone else HTTPStatus.UNPROCESSABLE_ENTITY
        return failed(status, str(error))
    except StepscopeError as error:
        return failed(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
    except Exception as error:  # noqa: BLE001 - a page goes on where one of its parts cannot
        what = f"{name} failed, which is an error of Stepscope's own: {error!r}"
        return failed(HTTPStatus.INTERNAL_SERVER_ERROR, what)
    if form == "json":
        return Answer(HTTPStatus.OK, JSON, as_json(value))
    return Answer(HTTPStatus.OK, FRAME, encoded(value))
