#!/bin/sh
# Finds the square root of 2 by halving an interval, and says after each step how far it is: a number in a file.
step=0 low=1000000 high=2000000
while [ "$step" -lt "${STEPS-300}" ]; do
    middle=$(((low + high) / 2))
    if [ $((middle * middle)) -lt 2000000000000 ]; then low=$middle; else high=$middle; fi
    step=$((step + 1))
    echo "$step" >"${FB_PROGRESS:-/dev/null}"
    sleep 1
done
echo "the square root of 2 is about $low / 1000000"
