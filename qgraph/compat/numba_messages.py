"""What Numba's errors say, in English and in no other way, read from 0.68.1 and numba-cuda 0.30.4.

Whatever is not recognised stays as Numba says it: ``compile_errors.sentence`` takes the first line that tells something.
"""

from __future__ import annotations

import re

#: The colours of a terminal.
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: A function has no code for these types: ``type`` is the function's, ``call`` is written as one.
NO_MATCH = re.compile(r"No implementation of function (?P<type>.+?) found for signature:\s*>>> (?P<call>.+)")
#: The same, of one that Numba resolves by itself.
INVALID = re.compile(r"Invalid use of (?P<type>.+?) with parameters (?P<args>\(.*\))")
#: A function's type; its ``name``.
TYPE_NAME = re.compile(r"(?:Bound)?Function\(<(?:built-in function|function|ufunc|class) '?(?P<name>[\w.]+)'?.*?>\)")
#: What is no number among the types of a call that has no code, and the call's name.
NO_NUMBER = re.compile(
    r"(?:no implementation of |can't resolve ufunc )?(?:static_)?(?P<name>\w+)(?: for types \[| does not take \(|\()"
    r"(?P<before>.*?)\b(?P<type>none|unicode_type|range_|UniTuple|Tuple|slice)"
)
#: The same, of a call whose types are all told.
WITHOUT_CODE = re.compile(r"no implementation of (?P<name>\w+)\((?P<types>.*)\) for these types")
#: Where it is: file and line, said in either of two ways.
PLACE = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+)|\bat (?P<at>\S+) \((?P<at_line>\d+)\)')
#: No place: Numba makes functions of operations on whole arrays, and puts them on the first line of the file.
FIRST_LINE = re.compile(r'typing of intrinsic-call at .+ \(1\)\s+File ".+", line 1:')
#: A global of this ``name`` has no type.
UNTYPED = re.compile(r"Untyped global name '(?P<name>\w+)'")
#: A ``name`` has two types, or what a function returns.
TWO_TYPES = re.compile(r"Cannot unify (?P<one>.+) and (?P<other>.+) for '(?P<name>[$\w]+)(?:\.\d+)*', defined at")
TWO_RESULTS = re.compile(r"Can't unify return type from the following types: (?P<types>.+)")
#: A text's type, with the text, and that of another literal, with the value.
LITERAL_TEXT = re.compile(r"Literal\[str\]\(.*?\)(?=[,)\]\s])")
LITERAL = re.compile(r"Literal\[\w+\]\((.*?)\)")
#: An error inside another one, with its class.
INNER = re.compile(r"(?:TypingError|NumbaError|LoweringError|NumbaValueError|NumbaTypeError): (.+)")
#: What one of several codes of a function says that has other parameters.
PARAMETERS = ("too many positional arguments", "missing a required argument", "got an unexpected keyword argument")
#: An index of this ``type``, which is a number and no integer.
INDEX = re.compile(r"Unsupported array index type (?P<type>(?:float|complex|bool|unicode_type)\w*) in ")
#: An array, or a vector of qgraph's, where a number belongs, assigned to an element.
ARRAY_STORED = re.compile(r"setitem\(array\(.*?\), .*, (?P<value>(?:array|vec\d+|mat\d+x\d+)\(.*?\))\)")
#: A complex number that is stored, or converted, where the type has real numbers alone.
COMPLEX_STORED = re.compile(r"setitem\(array\((?P<type>(?:u?int|float|bool)\w*), .*, complex(?:64|128)\)")
COMPLEX_CONVERTED = re.compile(r"Cannot cast complex(?:64|128) to (?P<type>(?:u?int|float|bool)\w*)")
#: An array without axes where a number belongs.
WITHOUT_AXES = re.compile(r"array\(\w+, 0d|^(?:float|complex)\(\) only support")
#: The CUDA target: something, often a function of Numba's own, makes an array.
NEW_ARRAY = ("Only accept returning of array passed into the function as argument", "NRT required but not enabled")
#: The CUDA target has not got what its own code uses.
LACKING = ("<class 'numba.cuda.extending._Intrinsic'>", "Function(<intrinsic ")
#: The CPU target has the type, and no way to keep a value of it: the text of a NotImplementedError.
NO_HALF = "float16"
#: Lines that say where Numba was, not what is wrong, by their beginnings.
NOISE = (
    "Failed in ",
    "During:",
    'File "',
    "There are ",
    "- Of which",
    "- Resolution failure",
    "Overload ",
    "No match",
    "Known signatures",
    "raised from ",
    "<source ",
    "This is not usually a problem",
    "To see Python/NumPy",
    "For more information",
    "* ",
)
