"""Words of the language and intrinsics of the compiler: what they are to an analysis, and their code."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from qgraph import language
from qgraph.operations import intervals, intrinsics, progress_ring, random_numbers, small_systems, vectors
from qgraph.operations.record import Operation, typed
from qgraph.polyhedral.symbolic_integers import trips


def _word(function: Any, intrinsic: Callable[[Any, Any], Any], **more: Any) -> Operation:
    """The record of a word with a function type of its own, which ``intrinsic`` makes of the word."""
    return Operation(functions=(function,), intrinsic=lambda code: intrinsic(code, function), **{"pure": False, **more})


def _atomics() -> Iterator[Operation]:
    for function in language.ATOMICS:
        yield _word(function, lambda code, word: code.atomic_word(word))
    for function in intrinsics.SPLIT:
        yield _word(function, lambda code, word: code.split_word(word))


def _indices() -> Iterator[Operation]:
    yield Operation(functions=(intrinsics.assume_ge,), intrinsic=lambda code: code.bound_word(assume=True))
    yield typed(intrinsics.wrap_index, lambda rules, code: rules.of_indices(code.wrap_index))
    yield typed(intrinsics.view_index, lambda rules, code: rules.of_indices(code.wrap_index))
    yield typed(
        intrinsics.trip_count,
        lambda rules, code: rules.of_indices(code.trip_count),
        integers=lambda start, stop, step: trips(start, stop, step.constant) if step.constant else None,
    )
    yield Operation(functions=(intrinsics.quotient,), intrinsic=lambda code: code.division_word("quotient"))
    yield Operation(functions=(intrinsics.remainder,), intrinsic=lambda code: code.division_word("remainder"))
    yield Operation(functions=(intrinsics.assume_u32,), intrinsic=lambda code: code.assume_u32_word())
    yield Operation(functions=(intrinsics.unfused,), intrinsic=lambda code: code.unfused_word())


def _numbers() -> Iterator[Operation]:
    for updated in (intrinsics.in_place, intrinsics.in_place_unsigned):
        yield typed(updated, lambda rules, code: rules.in_place, takes_ambiguous=True)
    yield Operation(functions=(intrinsics.match_subject,), intrinsic=lambda code: code.match_word())
    yield typed(intrinsics.round_python, lambda rules, code: rules.round_as_python, pure=False)
    yield typed(intrinsics.round_either, lambda rules, code: rules.round_either, pure=False)
    yield _word(intrinsics.power, lambda code, word: code.power_word(word.__name__))
    yield _word(intrinsics.real_power, lambda code, word: code.power_word(word.__name__))
    for function in intrinsics.CHECKED:
        yield _word(function, lambda code, word: code.divisor_word(word.__name__), result="first")
    yield _word(intrinsics.same_length, lambda code, _: code.same_length_word(), result="first")
    yield _word(intrinsics.length_of, lambda code, _: code.length_word(), pure=True)
    yield _word(intrinsics.summed, lambda code, _: code.summed_word(), pure=True)


def _random() -> Iterator[Operation]:
    for function in random_numbers.WORDS:
        yield _word(function, lambda code, word: code.random_word(word), pure=True)


def _vectors() -> Iterator[Operation]:
    for function in (vectors.vec, vectors.mat):
        yield _word(function, lambda code, word: code.vector_word(word.__name__), pure=True)
    yield _word(small_systems.solve_in_registers, lambda code, _: code.system_word(), pure=True)
    for function in small_systems.IN_WARP:
        yield _word(function, lambda code, word: code.in_warp_word(word), pure=True)
    for method in (*vectors.METHODS.values(), vectors.transposed, vectors.matmul):
        yield typed(method, lambda rules, code: rules.of_vectors)


def _reassociable() -> Iterator[Operation]:
    yield typed(
        intrinsics.reassociable_add,
        lambda rules, code: rules.no_booleans(code.reassociable(code.add), "+"),
        interval=intervals.corners(operator.add),
    )
    yield typed(
        intrinsics.reassociable_subtract,
        lambda rules, code: rules.no_booleans(code.reassociable(code.subtract), "-"),
        interval=intervals.corners(operator.sub),
    )
    yield typed(
        intrinsics.reassociable_multiply,
        lambda rules, code: rules.bits(code.reassociable(code.multiply)),
        interval=intervals.corners(operator.mul),
    )
    yield typed(
        intrinsics.reassociable_min,
        lambda rules, code: rules.one_of_two(code.reassociable_extreme(largest=False)),
        interval=intervals.corners(min),
        takes_ambiguous=True,
    )
    yield typed(
        intrinsics.reassociable_max,
        lambda rules, code: rules.one_of_two(code.reassociable_extreme(largest=True)),
        interval=intervals.corners(max),
        takes_ambiguous=True,
    )
    yield typed(
        intrinsics.reassociable_minimum,
        lambda rules, code: rules.extreme_of_two(code.reassociable_numpys(largest=False), largest=False),
    )
    yield typed(
        intrinsics.reassociable_maximum,
        lambda rules, code: rules.extreme_of_two(code.reassociable_numpys(largest=True), largest=True),
    )


def _of_generated_code() -> Iterator[Operation]:
    yield _word(intrinsics.across, lambda code, _: code.across_word())
    yield _word(intrinsics.across_warps, lambda code, _: code.across_warps_word())
    yield _word(intrinsics.of_lane, lambda code, _: code.of_lane_word())
    yield _word(intrinsics.load_vector, lambda code, _: code.load_vector_word())
    yield _word(intrinsics.store_vector, lambda code, _: code.store_vector_word())
    yield _word(intrinsics.holds_vectors, lambda code, _: code.holds_vectors_word())
    for function in (intrinsics.empty_sum, intrinsics.empty_product):
        yield _word(function, lambda code, word: code.empty_word(word.__name__), pure=True)
    yield _word(intrinsics.same_bits, lambda code, _: code.same_bits_word())
    yield _word(intrinsics.address_of, lambda code, _: code.address_word())
    yield _word(intrinsics.stack_array, lambda code, _: code.stack_word())
    yield _word(intrinsics.note_least, lambda code, _: code.note_least_word())
    yield _word(intrinsics.least_key, lambda code, _: code.least_key_word())
    yield _word(intrinsics.attempt, lambda code, _: code.attempt_word())
    yield _word(intrinsics.thread_array, lambda code, _: code.thread_word(), pure=True)
    yield _word(intrinsics.local_array, lambda code, _: code.local_array_word(heap=False))
    yield _word(intrinsics.heap_array, lambda code, _: code.local_array_word(heap=True))
    yield _word(intrinsics.set_condition, lambda code, _: code.condition_word())
    yield _word(intrinsics.call_host, lambda code, _: code.host_word())
    yield _word(intrinsics.stopped, lambda code, _: code.stopped_word())
    yield _word(intrinsics.split_rows, lambda code, _: code.split_rows_word())
    yield _word(intrinsics.ticks, lambda code, _: code.ticks_word())
    yield _word(intrinsics.clock, lambda code, _: code.clock_word())
    yield _word(intrinsics.poll, lambda code, _: code.poll_word())
    yield _word(progress_ring.publish, lambda code, _: code.publish_word())
    yield _word(intrinsics.peek, lambda code, _: code.peek_word())
    yield _word(intrinsics.peek_spread, lambda code, _: code.peek_spread_word())
    yield _word(intrinsics.spread, lambda code, _: code.spread_word())
    yield _word(intrinsics.is_over, lambda code, _: code.is_over_word())


WORDS = (*_atomics(), *_indices(), *_numbers(), *_random(), *_vectors(), *_reassociable(), *_of_generated_code())
