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
cat >"$WORK/antiphon.toml" <<END
[[upstreams]]
kind = "anthropic"
base_url = "http://127.0.0.1:$UP_PORT"
models = [{ name = "mock-anthropic", upstream = "mock" }]

[[upstreams]]
kind = "gemini"
base_url = "http://127.0.0.1:$UP_PORT/v1beta"
models = [{ name = "mock-gemini", upstream = "mock" }]

[[upstreams]]
kind = "responses"
base_url = "http://127.0.0.1:$UP_PORT/v1"
models = [{ name = "mock-responses", upstream = "mock" }]

[[upstreams]]
base_url = "http://127.0.0.1:$UP_PORT/v1"
models = [{ name = "mock-untouched", text_calls = "off" }, { name = "*", text_calls = "auto" }]
END
export XDG_DATA_HOME="$WORK" # away from the keys of whoever runs this
exec "$executable" serve --config "$WORK/antiphon.toml" --host 127.0.0.1 --port "$PORT" \
    --store "${BENCH_STORE:-sqlite:$WORK/state.db}" --log-level error
