// SPDX-License-Identifier: Apache-2.0
/*
 * Workflow files: definitions in files of libconfig
 *
 *     name = "order";
 *     version = 1;
 *     retry = { maximum_attempts = 5; initial_interval = "1s"; };
 *     steps = (
 *         { name = "reserve"; actor = "inventory"; lock = "30s";
 *           revert = { action = "release"; }; },
 *         { name = "charge"; actor = "payments"; after = [ "reserve" ];
 *           arguments = { currency = "EUR"; }; } );
 *
 * A file has one Workflow message of proto/drover/v1/types.proto: fields under their names; fields
 * that end with _ms without that ending, as durations; values of enums in lower case ("park").
 * Arguments are a group, list or array, which becomes application/json; or a text, which becomes
 * application/json if it is a JSON object or array, else text/plain.
 *
 * Called by the scheduler (scheduler.workflows) and the command line.
 */
#pragma once

#include "base/cleanup.h"
#include "base/status.h"
#include "drover/v1/types.pb-c.h"

enum {
    WORKFLOW_FILE_E_INVALID = 1,
};

/**
 * workflow_file_read() - read one file
 * @out: the caller frees it with drover__v1__workflow__free_unpacked(…, NULL); workflow_new()
 *       accepts it
 *
 * Return: 0, -ENOMEM, or WORKFLOW_FILE_E_INVALID with @problem set: its field is "<file>:<line>".
 */
int workflow_file_read(Drover__V1__Workflow **out, const char *path, struct problem *problem);

/**
 * workflow_step_read() - read some fields of a step, for a change
 * @settings: such as "lock=10m", "retry.maximum_attempts=9"; a text needs no quotes
 * @out:      the caller frees it with drover__v1__step__free_unpacked(…, NULL)
 *
 * Of two settings of one field the later one counts. The ranges of values are not checked.
 * Return: 0, -ENOMEM, or WORKFLOW_FILE_E_INVALID with @problem set: its field is the setting.
 */
int workflow_step_read(Drover__V1__Step **out, const char *const *settings, size_t n,
                       struct problem *problem);

/* Gets each definition, which is valid during the call only. Return: 0 or -EINVAL to go on; any
 * other value ends the reading and is returned. */
typedef int (*workflow_file_cb)(void *ctx, const char *path, const Drover__V1__Workflow *workflow);

/**
 * workflow_files_read() - read all *.cfg of a folder, in the order of their names
 *
 * Logs what is wrong with a file, or with the folder. After -EINVAL, its own or that of @cb, it
 * goes on with the next file, so that a person sees all errors at once. Return: 0, -EINVAL if a
 * file was refused, -errno, or what @cb has returned.
 */
int workflow_files_read(const char *folder, workflow_file_cb cb, void *ctx);
