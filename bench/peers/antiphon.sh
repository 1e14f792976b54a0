# Antiphon, one worker, state in SQLite.
# BENCH_ANTIPHON: its executable. BENCH_STORE: another store to measure.
#
# api: responses
# health: /healthz
# state: SQLite
# install: uv sync
executable=$(realpath "${BENCH_ANTIPHON:-.venv/bin/antiphon}") || exit 1
if [ "$1" = version ]; then
    python=$(dirname "$executable")/python
    exec "$python" -c 'from importlib.metadata import version; print(version("antiphon"))'
fi
cd "$WORK" || exit 1 # away from any antiphon.toml
export XDG_DATA_HOME="$WORK" # and from the keys of whoever runs this
exec "$executable" serve --host 127.0.0.1 --port "$PORT" --upstream "http://127.0.0.1:$UP_PORT/v1" \
    --store "${BENCH_STORE:-sqlite:$WORK/state.db}" --log-level error
