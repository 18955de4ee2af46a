// SPDX-License-Identifier: Apache-2.0
/*
 * The entry that libFuzzer calls, and replay_main.c where there is no libFuzzer
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Return: 0. Aborts where it finds something wrong. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
