"""The structs of the native code for ctypes, which are parsed from its C headers."""

import re
from ctypes import Structure, c_double, c_int64, c_void_p
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
# A struct comes before those that contain it.
HEADERS = ("workers.h", "fused_arguments.h", "step.h", "norm.h", "dropout.h", "translation.h")
SCALARS = {"int64_t": c_int64, "double": c_double, "parallel_t": c_void_p}
POINTED_TO = ("void", "float", "uint8_t", "int32_t", "int64_t")
STRUCT = re.compile(r"^struct (\w+) \{$(.*?)^\};$", re.MULTILINE | re.DOTALL)
INCLUDE = re.compile(r'^#include "(\w+\.h)"$', re.MULTILINE)
COMMENT = re.compile(r"//.*")
DECLARATION = re.compile(r"(?:const )?(?P<type>(?:struct )?\w+) (?P<names>\*?\w+(?:, \*?\w+)*)")
ANONYMOUS = "thread_pool"  # the struct whose fields are set directly on the struct that contains it


def read_structs(folder: Path, headers: tuple[str, ...] = HEADERS) -> dict[str, type[Structure]]:
    """The structs of some headers by their names in C; pointers are plain addresses.

    Raises:
        ValueError: if a declaration has an unsupported type.
    """
    structs: dict[str, type[Structure]] = {}
    for header in headers:
        for name, body in STRUCT.findall((folder / header).read_text(encoding="utf-8")):
            body = INCLUDE.sub(lambda included: (folder / included[1]).read_text(encoding="utf-8"), body)
            *declarations, rest = (" ".join(part.split()) for part in COMMENT.sub("", body).split(";"))
            if rest:
                raise ValueError(f"{header}: struct {name} ends with {rest!r}")
            fields = [field for declaration in declarations for field in read_fields(declaration, structs)]
            anonymous = [field for field, kind in fields if kind is structs.get(ANONYMOUS)]
            structs[name] = type(name, (Structure,), {"_anonymous_": anonymous, "_fields_": fields})
    return structs


def read_fields(declaration: str, structs: dict[str, type[Structure]]) -> list[tuple[str, type]]:
    """The names and ctypes types of the fields in a declaration such as ``const float *weight, *bias``.

    Raises:
        ValueError: if its type is not supported.
    """
    found = DECLARATION.fullmatch(declaration)
    if found is None:
        raise ValueError(f"{declaration!r} is not a declaration of fields")
    kind, fields = found["type"], list[tuple[str, type]]()
    known: Any = SCALARS.get(kind) or structs.get(kind.removeprefix("struct ") if kind.startswith("struct ") else "")
    for name in found["names"].split(", "):
        is_pointer = name.startswith("*")
        if known is None and not (is_pointer and kind in POINTED_TO):
            raise ValueError(f"{declaration!r} has an unsupported type")
        fields.append((name.lstrip("*"), c_void_p if is_pointer else known))
    return fields


STRUCTS = read_structs(FOLDER)
