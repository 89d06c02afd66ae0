"""The variables of a webhook call, from what was stored with its beat. Text from outside, all of it."""

from collections.abc import Mapping
from typing import Any

_DEFAULT_TITLE = "Webhook payload"


def build_event_values(data: Mapping[str, object]) -> dict[str, object]:
    """Return `payload` and the names that agentd has for calls; of a chat, its `message`.

    What the call does not have is an empty text.
    """
    if isinstance(data.get("message"), Mapping):
        return {"message": data["message"]}
    payload = data.get("payload")
    body = payload if isinstance(payload, Mapping) else {}
    subject = _first_mapping(body, "issue", "pull_request")
    return {
        "payload": payload,
        "delivery_id": data.get("delivery_id", ""),
        "timestamp": data.get("received_at", ""),
        "github_event": data.get("event", ""),
        "event_type": data.get("event", ""),
        "action": body.get("action", ""),
        "issue_number": _first_mapping(body, "issue").get("number", ""),
        "pr_number": _first_mapping(body, "pull_request").get("number", body.get("number", "")),
        "title": subject.get("title") or _first_text(body, "title", "subject", "name") or _DEFAULT_TITLE,
        "body": subject.get("body") or _first_text(body, "body", "text", "description"),
        "url": subject.get("html_url") or _first_text(body, "url", "html_url"),
        "labels": ", ".join(_label_names(subject)),
    }


def _first_mapping(body: Mapping[Any, Any], *names: str) -> Mapping[Any, Any]:
    return next((body[name] for name in names if isinstance(body.get(name), Mapping)), {})


def _first_text(body: Mapping[Any, Any], *names: str) -> str:
    return next((body[name] for name in names if isinstance(body.get(name), str)), "")


def _label_names(subject: Mapping[Any, Any]) -> list[str]:
    labels = subject.get("labels")
    found = [each.get("name") for each in labels if isinstance(each, Mapping)] if isinstance(labels, list) else []
    return [each for each in found if isinstance(each, str)]
