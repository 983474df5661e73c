"""Write the extension's protocol types, src/core/protocol.ts, from the daemon's; ``--check`` only compares.

``tests/test_extension.py`` runs the comparison, so the two cannot drift apart.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from palace_daemon.rpc import wire, wire_session

TARGET = Path(__file__).resolve().parents[1] / "src" / "core" / "protocol.ts"
_HEAD = """\
// Made by scripts/make_protocol.py from the daemon's own types (server/palace_daemon/rpc/wire*.py). Do not edit.

"""
_SCALARS: dict[type[inspect.Type], str] = {
    inspect.StrType: "string",
    inspect.IntType: "number",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.NoneType: "null",
    inspect.AnyType: "unknown",
}


class _Writer:
    """Turns structs into interfaces, each once, in the order in which they are met."""

    def __init__(self) -> None:
        self.interfaces: dict[str, str] = {}

    def name(self, struct: type[Any]) -> str:
        """Return the interface of ``struct``, written when it is first asked for."""
        name = struct.__name__
        if name not in self.interfaces:
            self.interfaces[name] = ""  # its place in the order, before what it refers to
            self.interfaces[name] = self._interface(name, inspect.type_info(struct))
        return name

    def _interface(self, name: str, info: inspect.Type) -> str:
        if not isinstance(info, inspect.StructType):
            raise TypeError(f"{name} is no struct")
        is_sent = issubclass(info.cls, wire.Params) or info.cls is wire_session.InitializationOptions
        omits_defaults = bool(info.cls.__struct_config__.omit_defaults)
        lines = []
        for field in info.fields:
            mark = "?" if not field.required and (is_sent or omits_defaults) else ""
            lines.append(f"  readonly {field.encode_name}{mark}: {self.type(field.type)};\n")
        doc = (info.cls.__doc__ or "").strip().splitlines()[0]
        return f"/** {doc} */\nexport interface {name} {{\n{''.join(lines)}}}\n"

    def type(self, info: inspect.Type) -> str:
        """Return the TypeScript type of one field."""
        match info:
            case inspect.Metadata(type=inner):
                return self.type(inner)
            case inspect.StructType(cls=cls):
                return self.name(cls)
            case inspect.UnionType(types=types):  # a key that may be unset is marked with "?"
                return " | ".join(dict.fromkeys(self.type(one) for one in types))
            case inspect.LiteralType(values=values):
                return " | ".join(msgspec.json.encode(value).decode() for value in values)
        return self._container(info)

    def _container(self, info: inspect.Type) -> str:
        match info:
            case inspect.DictType(key_type=key, value_type=value):
                return f"Readonly<Record<{self.type(key)}, {self.type(value)}>>"
            case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
                inner = self.type(item)
                return f"readonly ({inner})[]" if " " in inner else f"readonly {inner}[]"
        return _SCALARS[type(info)]


def protocol() -> str:
    """Return the whole file."""
    writer = _Writer()
    rows = [_row(writer, name, method) for name, method in wire.METHODS.items()]
    told = [f'  readonly "{name}": {writer.name(params)};\n' for name, params in wire.NOTIFICATIONS.items()]
    for struct in (wire_session.InitializationOptions, wire.ProgressValue, wire.ErrorData):
        writer.name(struct)
    return "\n".join(
        [
            _HEAD + f"export const PROTOCOL_VERSION = {wire.PROTOCOL_VERSION};\n",
            *writer.interfaces.values(),
            "/** Every request, with its parameters and its result. */\nexport interface Methods {\n"
            + "".join(rows)
            + "}\n",
            "/** What subscribers are told. */\nexport interface Notifications {\n" + "".join(told) + "}\n",
        ]
    )


def _row(writer: _Writer, name: str, method: wire.Method) -> str:
    results = " | ".join(writer.name(result) for result in method.results)
    return f'  readonly "{name}": {{ readonly params: {writer.name(method.params)}; readonly result: {results} }};\n'


def main() -> int:
    """Write the file, or with ``--check`` say whether it is current."""
    made = protocol()
    if "--check" in sys.argv[1:]:
        if TARGET.read_text(encoding="utf-8") == made:
            return 0
        print("src/core/protocol.ts is not what the daemon speaks: run scripts/make_protocol.py", file=sys.stderr)
        return 1
    TARGET.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
