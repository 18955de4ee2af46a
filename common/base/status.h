// SPDX-License-Identifier: Apache-2.0
/*
 * The error law
 *
 * A function that can fail returns int:
 *
 *    0    done
 *   <0    negative errno: fatal where it happened; callers forward it unchanged
 *   >0    this module's own enum (X_E_...), handled by the direct caller
 *
 * Nobody logs an error that he returns; whoever ends the chain logs it, once. Wire input and
 * configuration are operating errors and get a status; a broken promise inside the program is an
 * assert, and asserts stay on in release builds.
 */
#pragma once

/* A place in a document and what is wrong with it, for the person who wrote the document. */
struct problem {
    char field[192];  /* path such as "definition.steps[3].after[0]"; "" for the whole */
    char reason[256]; /* one line, says what would be right */
};

/**
 * problem_set() - record what is wrong
 * @p:      where to; NULL is allowed and records nothing
 * @field:  path of the field, cut to fit
 * @reason: printf format of the reason, cut to fit
 *
 * What is kept is well-formed UTF-8 without control characters, whatever was quoted: bytes that are
 * not become question marks.
 */
void problem_set(struct problem *p, const char *field, const char *reason, ...)
    __attribute__((format(printf, 3, 4)));
