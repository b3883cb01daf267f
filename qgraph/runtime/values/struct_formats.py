"""How numbers of each dtype lie in memory, for ``struct``."""

#: The format of one value; two letters are the parts of a complex number.
FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "complex64": "ff",
    "complex128": "dd",
}
