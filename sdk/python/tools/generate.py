"""Makes what is generated: the models from the controller's OpenAPI document, and the blocking client from the asyncio one.

Without arguments it writes both files; with a folder it writes them there, so that a test can compare.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "weir"
# What a controller serves is a superset of what a node does.
DOCUMENT = ROOT.parent.parent / "docs" / "openapi-controller.json"

# From the asyncio client to the blocking one, in this order.
WORDS = [
    (r"\bawait asyncio\.to_thread\(([\w.]+), ", r"\1("),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\basync def\b", "def"),
    (r"\basync with\b", "with"),
    (r"\basync for\b", "for"),
    (r"\bawait ", ""),
    (r"\bAsyncClient\b", "Client"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsync([A-Z]\w+)", r"\1"),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\baclose\b", "close"),
    (r"\baiter_lines\b", "iter_lines"),
    (r"\baread\b", "read"),
    (r"\bauth_async\b", "auth_sync"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\basyncio\b", "time"),
    (r"asynchronous", "blocking"),
]


def merge_choices(schema: dict[str, Any]) -> dict[str, Any]:
    """A choice among objects that one word tells apart, as one object: the generator leaves such choices out of `allOf`."""
    choices = schema.get("oneOf", [])
    if not choices or not all("properties" in choice for choice in choices):
        return schema
    properties: dict[str, Any] = {}
    required = set.intersection(*(set(choice.get("required", [])) for choice in choices))
    for choice in choices:
        for name, of in choice["properties"].items():
            known = properties.setdefault(name, dict(of))
            if "enum" in of:
                known["enum"] = list(dict.fromkeys([*known["enum"], *of["enum"]]))
    return {
        "type": "object",
        "description": schema.get("description", ""),
        "properties": properties,
        "required": sorted(required),
    }


def schemas(document: dict[str, Any]) -> dict[str, Any]:
    """The schemas of answers; graph documents are the user's own and stay dictionaries."""
    parts = {name: merge_choices(schema) for name, schema in document["components"]["schemas"].items()}
    parts["ServiceGraphDocument"] = {"type": "object", "description": "A service graph, as docs/service-graph.md says."}
    return {"openapi": "3.1.0", "info": document["info"], "paths": {}, "components": {"schemas": parts}}


def models(target: Path) -> None:
    """Writes the models."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(schemas(json.loads(DOCUMENT.read_text())), file)
        file.flush()
        subprocess.run(
            [
                str(Path(sys.executable).parent / "datamodel-codegen"),
                f"--input={file.name}",
                f"--output={target.resolve()}",
                "--input-file-type=openapi",
                "--output-model-type=pydantic_v2.BaseModel",
                "--target-python-version=3.11",
                "--use-standard-collections",
                "--use-union-operator",
                "--use-schema-description",
                "--use-field-description",
                "--use-double-quotes",
                "--enum-field-as-literal=all",
                "--collapse-root-models",
                "--use-annotated",
                "--disable-timestamp",
                "--formatters=black",
                "--custom-file-header=# Made by tools/generate.py from docs/openapi-controller.json: do not edit.",
            ],
            check=True,
        )


def blocking(source: str) -> str:
    """The blocking client of an asyncio one."""
    for pattern, replacement in WORDS:
        source = re.sub(pattern, replacement, source)
    imports, rest = source.split("\n\n\n", 1)
    head = "# Made by tools/generate.py from aio.py: do not edit.\n"
    return head + imports + "\n\n\n" + rest


def main() -> None:
    """Writes the files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE
    models(folder / "models.py")
    client = folder / "client.py"
    client.write_text(blocking((PACKAGE / "aio.py").read_text()))
    ruff = [str(Path(sys.executable).parent / "ruff")]
    config = [f"--config={ROOT / 'pyproject.toml'}"]
    subprocess.run([*ruff, "check", "-q", "--fix", "--select=I,F401", *config, str(client)], check=True)
    subprocess.run([*ruff, "format", "-q", *config, str(client)], check=True)


if __name__ == "__main__":
    main()
