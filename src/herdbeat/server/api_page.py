"""The readable page of the API, rendered from its OpenAPI document: no script, nothing from other servers."""

import json
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment

from herdbeat.server.auth import ReadCaller

router = APIRouter(include_in_schema=False)

_TEMPLATE = Environment(autoescape=True).from_string("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ info.title }} API</title>
<link rel="stylesheet" href="{{ base }}/api/docs.css">
<nav aria-label="Groups">{% for tag, operations in groups %}<a href="#group-{{ tag }}">{{ tag }}</a> {% endfor %}</nav>
<main>
<h1>{{ info.title }} {{ info.version }}</h1>
{% for paragraph in info.description.split("\n\n") %}<p>{{ paragraph }}</p>{% endfor %}
<p><a href="{{ base }}/api/v1/openapi.json">OpenAPI document</a></p>
{% for tag, operations in groups %}
<h2 id="group-{{ tag }}">{{ tag }}</h2>
{% for each in operations %}
<h3 id="{{ each.id }}"><code>{{ each.method }} {{ each.path }}</code></h3>
<p>{{ each.summary }}. {{ each.description }}</p>
{% if each.fields %}<div class="scroll" tabindex="0" role="group" aria-labelledby="{{ each.id }}">
<table>
<thead><tr>{% for word in ("name", "in", "type", "meaning") %}<th scope="col">{{ word }}</th>{% endfor %}</tr></thead>
<tbody>{% for field in each.fields %}<tr>{% for cell in field %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>{% endif %}
{% if each.answer %}<details><summary>Answer</summary><pre tabindex="0">{{ each.answer }}</pre></details>{% endif %}
{% endfor %}
{% endfor %}
</main>
</html>
""")

_STYLE = """
:root { color-scheme: light dark; --text: light-dark(#15191e, #e6edf3); --muted: light-dark(#5f6670, #9aa4b0);
  --line: light-dark(#dfe3e8, #262c34); --link: light-dark(#0b5cad, #6cb6ff); --code: light-dark(#f3f4f6, #161b22); }
body { margin: 0; background: light-dark(#fff, #0d1117); color: var(--text); font: 15px/1.55 system-ui, sans-serif; }
main, nav { max-width: 60rem; margin: 0 auto; padding: 0 1rem; }
main { padding-bottom: 4rem; }
nav { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; padding-top: 1rem; font-size: 0.875rem; }
a { color: var(--link); }
h1 { margin: 1.5rem 0 0.5rem; font-size: 1.5rem; }
h2 { margin: 2.5rem 0 0; padding-bottom: 0.25rem; border-bottom: 1px solid var(--line); font-size: 1.25rem; }
h3 { margin: 1.75rem 0 0.25rem; font-size: 0.9375rem; }
code { padding: 0.15em 0.35em; border-radius: 4px; background: var(--code); overflow-wrap: anywhere; }
p { margin: 0.25rem 0 0.5rem; }
.scroll { overflow-x: auto; }
details { margin-top: 0.5rem; font-size: 0.875rem; }
summary { color: var(--link); cursor: pointer; }
pre { max-height: 24rem; overflow: auto; padding: 0.5rem 0.75rem; border-radius: 4px; background: var(--code); }
table { width: 100%; border-collapse: collapse; font-size: 0.875rem; }
th, td { padding: 0.3rem 1rem 0.3rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--muted); font-weight: 500; }
td:first-child { font-family: ui-monospace, monospace; font-size: 0.8125rem; }
"""


@router.get("/api/docs.css")
def show_api_style() -> Response:
    return Response(_STYLE, media_type="text/css; charset=utf-8", headers={"Cache-Control": "max-age=3600"})


@router.get("/api/docs")
def show_api_page(request: Request, caller: ReadCaller) -> HTMLResponse:  # noqa: ARG001 -- only for those who may read
    document: dict[str, Any] = request.app.openapi()
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(_describe(document, path, method, operation))
    base = request.scope.get("root_path", "")
    return HTMLResponse(_TEMPLATE.render(info=document["info"], base=base, groups=groups.items()))


def _describe(document: dict[str, Any], path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    fields = [
        (each["name"], each["in"], _describe_type(document, each["schema"]), each.get("description", ""))
        for each in operation.get("parameters", ())
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    model = document["components"]["schemas"].get(body.get("$ref", "").rpartition("/")[2], {})
    for name, schema in model.get("properties", {}).items():
        fields.append((name, "body", _describe_type(document, schema), schema.get("description", "")))
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "summary": operation["summary"],
        "description": operation.get("description", ""),
        "fields": fields,
        "answer": _format_answer(operation),
    }


def _format_answer(operation: dict[str, Any]) -> str:
    """Return an example of what the request answers; empty for what is no JSON."""
    answers = (each.get("content", {}) for status, each in operation["responses"].items() if status.startswith("2"))
    example = next((each["application/json"].get("example") for each in answers if "application/json" in each), None)
    return "" if example is None else json.dumps(example, indent=2, ensure_ascii=False)


def _describe_type(document: dict[str, Any], schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_describe_type(document, each) for each in schema["anyOf"])
    if "$ref" in schema:
        return _describe_type(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "enum" in schema:
        return " | ".join(str(each) for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_describe_type(document, schema.get('items', {}))}"
    name = str(schema.get("type", "any"))
    return f"{name} ({schema['format']})" if "format" in schema else name
