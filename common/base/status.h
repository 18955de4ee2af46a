// SPDX-License-Identifier: Apache-2.0
/*
 * The rule for errors
 *
 * A function that can fail returns int:
 *
 *    0    done
 *   <0    negative errno; callers forward it unchanged
 *   >0    an enum of the module (X_E_...), which the direct caller handles
 *
 * A function does not log an error that it returns; the last caller, which forwards it no further,
 * logs it, once. Wrong messages and wrong configuration are operating errors and get a status; a
 * broken contract inside the program is an assert, and asserts stay active in release builds. This
 * rule holds everywhere.
 */
#pragma once

/* What is wrong with a message or file, and where, for the person who wrote it. */
struct problem {
    char field[192];  /* path such as "definition.steps[3].after[0]"; "" for the whole */
    char reason[256]; /* one line that says what would be right */
};

/**
 * problem_set() - record what is wrong
 * @p:      NULL is allowed: nothing is recorded
 * @field:  path of the field, cut to fit
 * @reason: printf format of the reason, cut to fit
 *
 * Characters for which utf8_is_harmful() is true become question marks, so that the recorded texts
 * are UTF-8 without control characters whatever they quote.
 */
void problem_set(struct problem *p, const char *field, const char *reason, ...)
    __attribute__((format(printf, 3, 4)));
