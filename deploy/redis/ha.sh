#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Starts a Redis or a Sentinel of compose.ha.yaml: ha.sh server NAME, ha.sh sentinel NAME
#
# Sentinels have a server write its role into its configuration, and write their own, so these are
# in the volume. All else is read from the files of deploy/ at each start.
set -eu
umask 077
own=/var/lib/redis/$1.conf
case $1 in
server)
    role=
    if [ -e "$own" ]; then
        role=$(grep '^replicaof ' "$own" || true)
    elif [ "$2" != redis1 ]; then
        role='replicaof redis1 6379'
    fi
    printf '%s\n' 'include /opt/redis/ha.conf' "replica-announce-ip $2" "$role" >"$own.new"
    mv "$own.new" "$own"
    exec redis-server "$own"
    ;;
sentinel)
    if [ ! -e "$own" ]; then
        cat /opt/redis/sentinel.conf /run/secrets/sentinel-login >"$own.new"
        printf 'sentinel announce-ip %s\n' "$2" >>"$own.new"
        mv "$own.new" "$own"
    fi
    exec redis-server "$own" --sentinel
    ;;
esac
