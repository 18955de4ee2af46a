# SPDX-License-Identifier: Apache-2.0
"""Random mutants that change nothing that a test could see, each with the reason

The name of a mutant is its function, its lines before and its lines after, as drawn.py prints them.
So the name stays if the function moves to another file.
"""

EQUIVALENT = {
    ("beginning_of", "if n_beginnings == PIECES then", "if n_beginnings ~= PIECES then"): """
        A cache of formatted numbers is emptied at other times; the texts are the same.""",
    ("large", "recent[number], n_recent = text, n_recent + 1", ""): """
        A cache of formatted numbers stays empty; the texts are the same.""",
    ("set_record", "else if (from->progress.len > 0)", "else if (from->progress.len > 1)"): """
        A progress of one byte has no token, so it is not read either.""",
    ("memory_of", "size_t edge = 3 * sizeof(*o->numbers) + sizeof(char *) + BLOCK;",
     "size_t edge = 4 * sizeof(*o->numbers) + sizeof(char *) + BLOCK;"): """
        The memory of a definition is an estimate, within the bound of the test.""",
    ("on_beat", "if (run->seen.request->heartbeat_ms > 0)",
     "if (run->seen.request->heartbeat_ms > 1)"): """
        A step has no heartbeats (0), or an interval of at least 100 ms.""",
    ("functions.expire", "if latest > 0 and now > latest then",
     "if latest > 1 and now > latest then"): """
        The latest time that the clock can show is a Unix time in ms, or 0.""",
    ("num", "if number and #text <= 3 then", "if number and #text <= 4 then"): """
        The cache keeps longer numbers as well; the results are the same.""",
    ("payload_json", "*out = NULL;", "(void)0;"): """
        Both callers have set it to NULL.""",
    ("atom_size",
     "return size > 0 && head + size <= len && memchr(at + head, '@', size) ? head + size : 0;",
     "return size > 0 && head + size < len && memchr(at + head, '@', size) ? head + size : 0;"): """
        An address that ends with its atom is refused as well: the numbers of the process are
        missing.""",
    ("publish_step", "if (e->error.len > 0)", "if (e->error.len > 1)"): """
        An encoded Error has at least two bytes.""",
    ("lease_length", "return t.heartbeat > 0 and min(3 * t.heartbeat, t.lock) or t.lock",
     "return t.heartbeat > 1 and min(3 * t.heartbeat, t.lock) or t.lock"): """
        A step has no heartbeats (0), or an interval of at least 100 ms.""",
    ("memory_of", "size_t edge = 3 * sizeof(*o->numbers) + sizeof(char *) + BLOCK;",
     "size_t edge = 3 / sizeof(*o->numbers) + sizeof(char *) + BLOCK;"): """
        The memory of a definition is an estimate, 14 % too high for many edges and 3 % with the
        mutant. The test allows half of it.""",
    ("record_one", "if not job or i >= job.n or not job.step_text then",
     "if not job or i >= job.n and not job.step_text then"): """
        A step beyond the last has no record. A step of the job without a record is read as one at
        rest, without a token, so the reply is STALE as well.""",
    ("real_read", "return 0;", "return 1;"): """
        A positive result counts only for an element of a repeated field, or a member of a oneof. No
        field of these kinds is a double.""",
}
