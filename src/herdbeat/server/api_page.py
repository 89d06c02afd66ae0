"""The readable page of the API, rendered from its OpenAPI document: no script, nothing from other servers."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from herdbeat.server.auth import ReadCaller

router = APIRouter(include_in_schema=False)

_TEMPLATE = Environment(autoescape=True).from_string("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{ info.title }} API</title>
<h1>{{ info.title }} {{ info.version }}</h1>
{% for paragraph in info.description.split("\n\n") %}<p>{{ paragraph }}</p>{% endfor %}
<p><a href="{{ base }}/api/v1/openapi.json">OpenAPI document</a></p>
{% for tag, operations in groups %}
<h2>{{ tag }}</h2>
{% for each in operations %}
<h3 id="{{ each.id }}"><code>{{ each.method }} {{ each.path }}</code></h3>
<p>{{ each.summary }}. {{ each.description }}</p>
{% if each.fields %}<table>
<tr><th>name</th><th>in</th><th>type</th><th>meaning</th></tr>
{% for field in each.fields %}<tr>{% for cell in field %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>{% endif %}
{% endfor %}
{% endfor %}
</html>
""")


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
        (each["name"], each["in"], _type_name(each["schema"]), each.get("description", ""))
        for each in operation.get("parameters", ())
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    model = document["components"]["schemas"].get(body.get("$ref", "").rpartition("/")[2], {})
    for name, schema in model.get("properties", {}).items():
        fields.append((name, "body", _type_name(schema), schema.get("description", "")))
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "summary": operation["summary"],
        "description": operation.get("description", ""),
        "fields": fields,
    }


def _type_name(schema: dict[str, Any]) -> str:
    options = schema.get("anyOf")
    if options:
        return " or ".join(_type_name(each) for each in options)
    name = schema.get("$ref", "").rpartition("/")[2] or str(schema.get("type", "any"))
    return f"{name} ({schema['format']})" if "format" in schema else name
