// SPDX-License-Identifier: Apache-2.0
/*
 * Splitting: the Submits in one message, each as a body of its own
 *
 * The scheduler reads each by itself, so an invalid one, or one that kills the process, does not
 * concern the others. Pure. Called by scheduler/submits.c.
 */
#pragma once

#include "base/status.h"
#include "base/str.h"
#include "model/wire_limits.h"

/**
 * wire_split() - find the Submits in the body of a Submits message
 * @body:    protobuf, or JSON if it begins with '{'
 * @items:   slices of @body, each a body for wire_decode(WIRE_SUBMIT), which may be invalid
 * @n:       how many there are; at least 1 where 0 is returned
 * @problem: set otherwise; NULL is allowed
 *
 * Return: 0, WIRE_E_MALFORMED or WIRE_E_INVALID.
 */
int wire_split(struct bytes body, struct bytes items[WIRE_SUBMITS_MAX], size_t *n,
               struct problem *problem);
