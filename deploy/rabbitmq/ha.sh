#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Starts one of three RabbitMQ nodes (compose.ha.yaml).
set -eu
umask 077
rm -f "$HOME/.erlang.cookie"
cat /run/secrets/rabbitmq-cookie >"$HOME/.erlang.cookie"
chmod 400 "$HOME/.erlang.cookie"
# A quorum queue has members on the nodes that were there when it was made. The others get theirs
# when all nodes are up, and each node its share of the leaders.
(
    until rabbitmqctl -q await_online_nodes 3 --timeout 600; do sleep 1; done
    rabbitmq-queues -q grow "$RABBITMQ_NODENAME" all
    rabbitmq-queues -q rebalance quorum
) >/dev/null 2>&1 &
exec rabbitmq-server
