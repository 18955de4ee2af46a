// SPDX-License-Identifier: Apache-2.0
/*
 * Alert groups: one alert for each cause and interval
 */
#pragma once

#include "scheduler/op.h"

#define ALERT_CAUSES_MAX 1000 /* distinct causes of alerts in one alert interval */

/**
 * alert_group_add() - add an alert to those of its cause
 * @m:         the event; if it is the first of its cause it goes to the log and the alert command
 * @about:     see struct scheduler_alert
 * @publishes: the event of a later one is published at the end of the interval
 *
 * Return: whether it is the first.
 */
bool alert_group_add(struct scheduler *s, Drover__V1__JobEvent *m, const char *cause,
                     const char *about, bool publishes);
/* Gives an alert to the log and to the alert command. The log gets nothing of the data of a job. */
void alert_group_hand_over(struct scheduler *s, const Drover__V1__JobEvent *m, const char *about,
                           struct bytes event);
/* Ends the intervals of causes that are over; alert_group_next() is the time of the next end. */
void alert_group_tick(struct scheduler *s);
int64_t alert_group_next(const struct scheduler *s);
/* Ends all intervals now. */
void alert_group_stop(struct scheduler *s);
void alert_group_free_all(struct scheduler *s);
