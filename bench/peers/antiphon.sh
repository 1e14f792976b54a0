# Antiphon, one worker, state in memory.
# BENCH_ANTIPHON: its executable. BENCH_STORE: another store to measure.
#
# api: responses
# health: /healthz
# install: uv sync
executable=$(realpath "${BENCH_ANTIPHON:-.venv/bin/antiphon}") || exit 1
if [ "$1" = version ]; then
    python=$(dirname "$executable")/python
    exec "$python" -c 'from importlib.metadata import version; print(version("antiphon"))'
fi
cd "$WORK" || exit 1 # away from any antiphon.toml
exec "$executable" serve --host 127.0.0.1 --port "$PORT" --upstream "http://127.0.0.1:$UP_PORT/v1" \
    --store "${BENCH_STORE:-memory:}" --log-level error
