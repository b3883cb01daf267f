"""Array expressions as expressions of their elements: what NumPy does with whole arrays, one element at a time."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod

import numpy as np

from qgraph.errors import KernelTypeError
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.ranks import is_component, is_elementwise, is_place, known_object, new_array, rank
from qgraph.frontend.names.scope import Scope
from qgraph.ir.trees import at_place, operands_of
from qgraph.operations import intrinsics
from qgraph.operations.table import operation
from qgraph.source import as_written, copied

# Functions of a number, and of how many decimals it keeps.
_ROUNDING = (np.round, np.around)


class Elementwise(ABC):
    """Turns an array expression into one of elements; what an element of an array is, and a number, is another's to say."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        # The ranks of the statement's expressions, each found once.
        self._ranks: dict[ast.expr, int] = {}

    @abstractmethod
    def _element(self, node: ast.expr) -> ast.expr:
        """The element of an array, or of a part of one."""

    @abstractmethod
    def _number(self, node: ast.expr) -> ast.expr:
        """A number, the same for all elements."""

    def visit(self, node: ast.expr) -> ast.expr:
        """``node`` for one element."""
        if rank(self.scope, node, self._ranks) == 0:
            return self._number(node)
        match node:
            case ast.BinOp(op=ast.Pow()) if (power := self._power(node)) is not None:
                return power
            case ast.BinOp(left=left, right=right) if not isinstance(node.op, ast.MatMult):
                # The operands have places: nobody need look for more in the tree, which may be a thousand deep.
                return ast.copy_location(ast.BinOp(self.visit(left), node.op, self.visit(right)), node)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert() as op, operand=operand):
                negates = isinstance(op, ast.Invert) and element_type(self.scope, operand) == np.bool_
                return at_place(ast.UnaryOp(ast.Not() if negates else op, self.visit(operand)), node)
            case ast.Attribute(value=value) if is_component(self.scope, node):
                return at_place(ast.Attribute(self.visit(value), node.attr, ast.Load()), node)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return at_place(ast.Compare(self.visit(left), [op], [self.visit(right)]), node)
            case ast.Call() if is_elementwise(self.scope, node.func):
                return self._call(node)
        if is_place(self.scope, node):
            return at_place(self._element(node), node)
        if isinstance(node, (ast.Call, ast.BinOp)):
            raise new_array(self.scope, node)
        raise self.scope.error(
            f"`{as_written(node)}` is no elementwise expression",
            node,
            "use operators, comparisons, np.where and NumPy's functions of numbers; `&`, `|`, `~` instead of and, or, not",
        )

    def _power(self, node: ast.BinOp) -> ast.expr | None:
        """A power that NumPy computes in another way: of 0.5, and 2 of a boolean, which is an int8; other powers are int64."""
        match node:
            case ast.BinOp(left=base, right=ast.Constant(value=0.5)) if self._has_root(base):
                return self._root(base, node)
            case ast.BinOp(left=base, right=ast.Constant(value=2)) if element_type(self.scope, base) == np.bool_:
                return at_place(ast.BinOp(word(self.scope, np.int8, self.visit(base)), node.op, node.right), node)
        return None

    def _has_root(self, node: ast.expr) -> bool:
        dtype = element_type(self.scope, node)
        return dtype is not None and dtype.kind in "fc" and dtype.itemsize >= np.float32().itemsize

    def _root(self, base: ast.expr, node: ast.expr) -> ast.expr:
        """The power 0.5 of an array, which NumPy computes as the square root: -inf gives nan, and -0.0 itself."""
        return at_place(word(self.scope, np.sqrt, self.visit(base)), node)

    def _call(self, node: ast.Call) -> ast.expr:
        function = known_object(self.scope, node.func)
        match node.args:
            case [base, ast.Constant(value=0.5)] if function is np.power and self._has_root(base):
                return self._root(base, node)
        if node.keywords:
            raise self.scope.error(
                f"`{as_written(node)}` is given `{node.keywords[0].arg}` by name",
                node,
                "give NumPy's functions of numbers their operands alone, such as np.sqrt(x); or write a loop",
            )
        arguments = [self.visit(argument) for argument in node.args]
        if function is np.where and len(arguments) == 3:
            pairs = zip(arguments, node.args, strict=True)
            return at_place(ast.IfExp(*(self._of_both(value, given, node) for value, given in pairs)), node)
        if function in _ROUNDING and len(arguments) == 2 and rank(self.scope, node.args[1]):
            raise self.scope.error(
                f"the number of decimals, `{as_written(node.args[1])}`, is an array",
                node.args[1],
                "NumPy wants one number for all elements",
            )
        if function is np.invert and len(arguments) == 1 and element_type(self.scope, node.args[0]) == np.bool_:
            return at_place(ast.UnaryOp(ast.Not(), arguments[0]), node)
        if len(arguments) not in operation(function).elementwise:
            raise self.scope.error(f"`{as_written(node)}` has {len(arguments)} arguments", node, "see NumPy's manual")
        return at_place(ast.Call(copied(node.func), arguments, []), node)

    def _of_both(self, value: ast.expr, given: ast.expr, node: ast.Call) -> ast.expr:
        """``value``, one of two that `np.where` takes, as the type of both that NumPy makes of it."""
        if given is node.args[0]:
            return value
        of_one, of_both = element_type(self.scope, given), element_type(self.scope, node)
        if of_one is None or of_both is None or of_one == of_both:
            return value
        # An integer becomes the kernel's float.
        return word(self.scope, float if of_one.kind in "iu" and of_both.kind == "f" else of_both.type, value)


class Zeros(ast.NodeTransformer):
    """The first iteration: each variable of the loop is 0."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name, or 0."""
        return ast.copy_location(ast.Constant(0), node) if node.id in self._names else node


def check_in_place(scope: Scope, node: ast.AugAssign, target: ast.expr, value: ast.expr) -> None:
    """NumPy refuses an update whose result is of a wider kind than the array."""
    computed = ast.copy_location(ast.BinOp(target, node.op, value), node)
    place = as_written(target) if isinstance(target, ast.Subscript) else f"{as_written(target)}[...]"
    if isinstance(node.op, ast.MatMult):
        what = f"`{as_written(node)}` is a product in place"
        raise scope.error(what, node, f"assign it, of whole arrays at kernel level: {place} = {as_written(computed)}")
    of_target, result = element_type(scope, target), element_type(scope, computed)
    if of_target is not None and result is not None and not np.can_cast(result, of_target, "same_kind"):
        raise KernelTypeError(
            f"`{as_written(node)}` computes {result}, and `{as_written(target)}` is of type {of_target}",
            scope.span(node),
            hint=f"NumPy refuses this too: write `{place} = ...`, which converts",
        )


def updated_in_place(scope: Scope, target: ast.expr, computed: ast.BinOp) -> ast.Call:
    """``computed``, an element that is updated, of a number whose type is inferred later: checked then, as above."""
    dtype = element_type(scope, target)
    function = intrinsics.in_place_unsigned if dtype is not None and dtype.kind == "u" else intrinsics.in_place
    return word(scope, function, computed, computed.left)


def array_operands(scope: Scope, node: ast.expr, ranks: dict[ast.expr, int]) -> list[ast.expr]:
    """The parts of arrays in an expression; ``ranks`` as in ``rank``."""
    if rank(scope, node, ranks) == 0:
        return []
    if is_place(scope, node):
        return [node]
    return [array for operand in operands_of(node) for array in array_operands(scope, operand, ranks)]
