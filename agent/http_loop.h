// SPDX-License-Identifier: Apache-2.0
/*
 * HTTP loop: libcurl on the loop of the process
 *
 * There is one in a process. Its sockets are uv_poll_t handles, its timeouts one timer. Used by
 * handler_http.c, on the loop's thread.
 */
#pragma once

#include <curl/curl.h>
#include <uv.h>

/* A request has ended. It is to be removed. */
typedef void http_loop_ended_fn(CURL *easy, CURLcode code);

/* May be repeated: the first call counts. */
void http_loop_open(uv_loop_t *loop, http_loop_ended_fn *ended);

/* Begins a request; ended() is called later, from the loop. */
void http_loop_add(CURL *easy);

/* Gives up a request, or lets go of one that has ended, and frees it. */
void http_loop_remove(CURL *easy);

/* To be called when no request is under way, also if the loop was never opened. Closing takes
 * further iterations of the loop. */
void http_loop_close(void);
