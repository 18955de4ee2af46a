#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints a file as the inside of a C array: embed.sh FILE
od -An -v -tx1 "$1" | sed 's/ \(..\)/0x\1,/g'
